package demo

import (
	"context"
	"io"

	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/offload/demo/kv"
	"github.com/spillway-io/spillway/offload/demo/load"
	"github.com/spillway-io/spillway/offload/demo/workload"
)

// The parts that the demo runs as processes of their own, each in its cgroup: `EXE demo-part NAME`.
const (
	partLoad    = "load"
	partKV      = "kv"
	partSidecar = "sidecar"
	partBatch   = "batch"
	partSweep   = "sweep"
)

// Part is the body of the hidden command `demo-part NAME`. It reads its task as JSON from in and ends when in does.
func Part(ctx context.Context, name string, in io.Reader, out io.Writer) error {
	switch name {
	case partLoad:
		return load.Main(ctx, in, out, load.Options{})
	case partKV:
		return kv.Main(ctx, in, out)
	case partSidecar:
		return workload.Sidecar(ctx, in, out)
	case partBatch:
		return workload.Batch(ctx, in, out)
	case partSweep:
		return sweep(ctx, in, out)
	}
	return errkind.New(errkind.Invalid, "demo: no part is called %q", name)
}
