// Package farmem is a room that imports another, and web.
package farmem

import (
	_ "example.com/broken/microvm"
	_ "example.com/broken/web"
)
