package top

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spillway-io/spillway/internal/admin"
	"github.com/spillway-io/spillway/internal/cli"
)

// Once writes the table once, for pipes and for `top --once`: every column, whole names, no colour, largest
// offloaded first. Columns never depend on a terminal, so that scripts can rely on them.
func Once(ctx context.Context, c Client, w io.Writer) error {
	snap, err := read(ctx, c, false)
	if err != nil {
		return err
	}
	h := snap.status.Host
	if _, err := fmt.Fprintf(w, "saving %s net; %s of %s memory available; %s\n", amount(h.SavingNet),
		amount(h.MemAvailable), amount(h.MemTotal), hostPressure(h)); err != nil {
		return err
	}
	tiers := tierNames(snap)
	head := []string{"CGROUP", "CLASS", ">USED", ">RESIDENT", ">OFFLOADED"}
	for _, t := range tiers {
		head = append(head, ">"+tierLabel(t, tiers))
	}
	t := cli.NewTable(append(head, ">SAVING", ">MEM PSI", ">IO PSI", ">REFAULT/S", ">MAJFLT/S", "LAST DECISION")...)
	slices.SortStableFunc(snap.cgroups, func(a, b admin.Cgroup) int { return sortOffloaded.compare(&a, &b) })
	for i := range snap.cgroups {
		c := &snap.cgroups[i]
		row := []string{c.Path, className(c), size(used(c)), size(c.Usage), size(offloaded(c))}
		for _, name := range tiers {
			row = append(row, size(c.Offloaded[name]))
		}
		t.Row(append(row, size(c.Saving), pressure(c, c.MemSome), pressure(c, c.IOSome), rate(c, c.Refaults),
			rate(c, c.Faults), decision(c))...)
	}
	return t.Write(w)
}
