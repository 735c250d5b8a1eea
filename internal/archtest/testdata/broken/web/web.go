// Package web imports a room, a test helper and somebody else's library.
package web

import (
	_ "example.com/broken/internal/testkit"
	_ "example.com/broken/microvm"
	_ "github.com/containerd/ttrpc"
	_ "k8s.io/api/core/v1"
)
