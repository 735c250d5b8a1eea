// Package bytesize is on floor 0 and imports floor 1.
package bytesize

import _ "example.com/broken/internal/sys"
