package guest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spillway-io/spillway/internal/sys"
	"github.com/spillway-io/spillway/internal/testkit/guest/wire"
)

const (
	kvm = "kvm"
	tcg = "tcg"
)

// kvmLimit is what a guest with an empty plan may take under KVM; one that works needs about a second.
const kvmLimit = 15 * time.Second

// accelerator says what runs guests here. /dev/kvm can open and still be unable to run one (nested, or inside
// another sandbox), so a guest with an empty plan must come up. The answer holds until this machine boots again.
func accelerator(ctx context.Context, dir, work string, im image) (string, error) {
	f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		return tcg, nil // no KVM, or not for us: emulation needs nothing
	}
	f.Close()
	boot, err := sys.BootID("/")
	if err != nil {
		return "", fmt.Errorf("guest: probe KVM: %w", err)
	}
	known := filepath.Join(dir, "accel-"+boot)
	if b, err := os.ReadFile(known); err == nil {
		return string(b), nil
	}
	m, err := assemble(ctx, Config{}.withDefaults(), im, work, nil)
	if err != nil {
		return "", err
	}
	m.accel = kvm
	accel := kvm
	if err := m.boot(ctx, kvmLimit, func(wire.Frame, time.Duration) error { return nil }); err != nil {
		accel = tcg
	}
	if ctx.Err() != nil {
		return "", fmt.Errorf("guest: probe KVM: %w", context.Cause(ctx))
	}
	if err := os.WriteFile(known, []byte(accel), 0o644); err != nil {
		return "", fmt.Errorf("guest: note the accelerator: %w", err)
	}
	return accel, nil
}
