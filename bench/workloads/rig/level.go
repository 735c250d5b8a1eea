package rig

import (
	"context"
	"fmt"

	"github.com/spillway-io/spillway/internal/admin"
)

// Level is what the daemon says of m's service level now; nil when it has no signal for m, or does not manage it.
func (d *Daemon) Level(ctx context.Context, m *Member) (*admin.SLO, error) {
	rows, err := d.admin.Cgroups(ctx)
	if err != nil {
		return nil, fmt.Errorf("rig: ask for cgroups: %w", err)
	}
	for _, row := range rows {
		if row.Path == m.Path {
			return row.SLO, nil
		}
	}
	return nil, nil
}
