package workloads

import (
	"context"
	"os"

	"github.com/spillway-io/spillway/bench/workloads/adversary"
	"github.com/spillway-io/spillway/bench/workloads/drive"
	"github.com/spillway-io/spillway/bench/workloads/rig"
)

// Adversaries lists the programs that are hard on the agent. They have no objective: what counts is what the agent
// costs them and the machine, beside what it saves.
func Adversaries(cfg Config) []Workload {
	const chunk = 256 << 10
	mib := func(n int) int { return cfg.scale(n << 20) }
	pages := func(bytes int, rate float64, cold float64, cycle bool) drive.Spec {
		keys := bytes / chunk
		return drive.Spec{Conns: 1, Rate: rate, Keys: keys, Cold: int(cold * float64(keys)), Theta: 0.99, Cycle: cycle, Seed: 15}
	}
	at := func(n float64) float64 { return n * float64(cfg.scale(4)) / 4 } // a round takes as long in a quick run
	ws := []Workload{
		{Name: "scan", What: "384 MB read in turn in 15 s, with zswap's pool at its smallest", MaxPool: 1,
			Adversary: &adversary.Task{Kind: adversary.Scan, Bytes: mib(384), Chunk: chunk}, Load: pages(mib(384), at(100), 0, true)},
		{Name: "redirty", What: "192 MB written to in turn in 20 s",
			Adversary: &adversary.Task{Kind: adversary.Redirty, Bytes: mib(192), Chunk: chunk}, Load: pages(mib(192), at(38), 0, true)},
		{Name: "noise", What: "192 MB that do not compress, 60 % of it never read",
			Adversary: &adversary.Task{Kind: adversary.Noise, Bytes: mib(192), Chunk: chunk}, Load: pages(mib(192), 100, 0.6, false)},
		{Name: "churn", What: "a job a second with 8 MB of shared memory that outlives it and its cgroup",
			Adversary: &adversary.Task{Kind: adversary.Churn, Bytes: 8 << 20, Chunk: chunk},
			Load:      drive.Spec{Conns: 20, Rate: 1, Keys: 1, Cycle: true, Rest: adversary.JobLife}},
	}
	for i := range ws {
		ws[i].Start = startAdversary
	}
	return ws
}

func startAdversary(ctx context.Context, s *stage, m *rig.Member) (*rig.Process, string, error) {
	task := *s.w.Adversary
	cpus, _ := rig.Places()
	sp := rig.Spec{Name: task.Kind + " " + m.Name, Part: []string{partAdversary}, CPUs: cpus, In: m}
	if s.w.parent() { // its jobs are in the cgroup, it is not
		self, err := os.Executable()
		if err != nil {
			return nil, "", err
		}
		sp.In, task.Dirs, task.Job = nil, m.Dirs, []string{self, rig.Part, partJob}
	}
	sp.Task = task
	p, err := s.rig.Start(sp)
	if err != nil {
		return nil, "", err
	}
	return p, "", p.Ready(ctx)
}
