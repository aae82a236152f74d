package analysistest

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/tare-bench/tare/internal/analysis/timeline"
	"github.com/tare-bench/tare/internal/bench"
)

// A Step is one tile of a start that never was: which process did what, and for how long.
type Step struct {
	Lane   int
	Kind   timeline.Kind
	Class  timeline.Class
	Reason string
	Time   time.Duration
}

// Start joins steps to the timeline of a trial. The first create of them are its span "create", the others
// "start".
func Start(trial bench.Trial, lanes []timeline.Lane, create int, steps []Step) timeline.Timeline {
	t := timeline.Timeline{Trial: trial, Lanes: slices.Clone(lanes)}
	for i, s := range steps {
		l := &t.Lanes[s.Lane]
		t.Tiles = append(t.Tiles, timeline.Tile{
			At: t.Value, Duration: s.Time, Lane: s.Lane, Thread: l.Process, Kind: s.Kind, Class: s.Class, Reason: s.Reason,
		})
		l.OnPath += s.Time
		t.Value += s.Time
		if i == create-1 {
			t.Spans = append(t.Spans, timeline.Span{Name: "create", Duration: t.Value})
		}
	}
	at := time.Duration(0)
	if len(t.Spans) > 0 {
		at = t.Spans[0].Duration
	}
	t.Spans = append(t.Spans, timeline.Span{Name: "start", At: at, Duration: t.Value - at})
	for i := range t.Lanes {
		t.Lanes[i].Ended = t.Value
	}
	return t
}

// TracedCell says of a cell what its starts would. Its intervals are ±5 %.
func TracedCell(cell int, cost timeline.Cost, starts ...timeline.Timeline) timeline.Cell {
	c := timeline.Cell{Cell: cell, Timelines: starts, Complete: len(starts), Typical: len(starts) / 2, Cost: cost}
	rows := map[timeline.Key]*timeline.Row{}
	processes := map[timeline.Key]map[int]bool{}
	share := time.Duration(max(len(starts), 1))
	for i := range starts {
		for _, x := range starts[i].Tiles {
			k := timeline.Key{Role: starts[i].Lanes[x.Lane].Role, Kind: x.Kind, Class: x.Class}
			if rows[k] == nil {
				rows[k], processes[k] = &timeline.Row{Key: k}, map[int]bool{}
			}
			r := rows[k]
			r.Mean.Value += x.Duration / share
			processes[k][x.Lane] = true
			if x.Reason == "" {
				continue
			}
			at := slices.IndexFunc(r.Reasons, func(y timeline.Reason) bool { return y.Name == x.Reason })
			if at < 0 {
				r.Reasons, at = append(r.Reasons, timeline.Reason{Name: x.Reason}), len(r.Reasons)
			}
			r.Reasons[at].Mean += x.Duration / share
			r.Reasons[at].Times += 1 / float64(share)
		}
		c.Value.Value += starts[i].Value / share
	}
	for k, r := range rows {
		r.Mean = around(r.Mean.Value)
		r.Share = float64(r.Mean.Value) / float64(c.Value.Value)
		r.Processes = float64(len(processes[k]))
		c.Rows = append(c.Rows, *r)
	}
	c.Value = around(c.Value.Value)
	slices.SortFunc(c.Rows, func(a, b timeline.Row) int {
		return cmp.Or(cmp.Compare(b.Mean.Value, a.Mean.Value), cmp.Compare(a.Role, b.Role), cmp.Compare(a.Kind, b.Kind),
			cmp.Compare(a.Class, b.Class))
	})
	return c
}

// around is a mean with an interval.
func around(v time.Duration) timeline.Mean {
	off := time.Duration(math.Abs(float64(v)) / 20)
	return timeline.Mean{Value: v, Low: v - off, High: v + off, HasInterval: true}
}

// Docker is a start by that engine, with numbers that nobody has measured.
func Docker(trial bench.Trial) timeline.Timeline {
	t := Start(trial, []timeline.Lane{
		{Process: 2200, Name: "tare", Role: "tare", Parent: -1},
		{Process: 800, Name: "dockerd", Role: "dockerd", Parent: -1},
		{Process: 700, Name: "containerd", Role: "containerd", Parent: -1},
		{Process: 2190, Name: "systemd-udevd", Role: "systemd", Parent: -1},
		{Process: 2210, Name: "dockerd", Role: "dockerd, again", Parent: 1},
		{Process: 2220, Name: "containerd-shim-runc-v2", Role: "shim", Parent: 2},
		{Process: 2230, Name: "runc", Role: "runc", Parent: 5},
		{Process: 2240, Name: "runc", Role: "runc init", Parent: 6},
		{Process: 2250, Name: "dockerd", Role: "dockerd, again", Parent: 6},
		{Process: 2240, Name: "tare-agent", Role: "program", Parent: 7},
	}, 6, dockerSteps())
	t.Tiles[16].Stack = []string{"synchronize_rcu", "percpu_down_write", "cgroup_procs_write_start"}
	beside := func(lane, thread int, at, length time.Duration) {
		t.Lanes[lane].Beside = append(t.Lanes[lane].Beside, timeline.Tile{
			At: at, Duration: length, Lane: lane, Thread: thread, Kind: timeline.OnCPU, Class: timeline.Code,
		})
	}
	beside(1, 812, 150*time.Millisecond, 40*time.Millisecond)
	beside(3, 2190, 60*time.Millisecond, 9*time.Millisecond)
	return t
}

func dockerSteps() []Step {
	ms := func(v float64) time.Duration { return time.Duration(v * float64(time.Millisecond)) }
	return []Step{
		{0, timeline.InCall, timeline.Messages, "write", ms(0.2)},
		{1, timeline.OnCPU, timeline.Code, "", ms(6)},
		{1, timeline.InCall, timeline.Storage, "mount", ms(3)},
		{1, timeline.Waiting, timeline.Storage, "fsync", ms(5)},
		{1, timeline.OnCPU, timeline.Code, "", ms(4)},
		{1, timeline.InCall, timeline.Messages, "write", ms(0.3)},
		{1, timeline.OnCPU, timeline.Code, "", ms(8)},
		{4, timeline.OnCPU, timeline.Code, "", ms(52)},
		{4, timeline.InCall, timeline.Network, "setns", ms(1.5)},
		{1, timeline.Waiting, timeline.Network, "sendto", ms(11)},
		{2, timeline.OnCPU, timeline.Code, "", ms(7)},
		{5, timeline.Ready, timeline.Code, "", ms(1.2)},
		{5, timeline.OnCPU, timeline.Code, "", ms(38)},
		{5, timeline.InCall, timeline.Processes, "clone", ms(3)},
		{6, timeline.OnCPU, timeline.Code, "", ms(14)},
		{6, timeline.InCall, timeline.Groups, "mkdirat", ms(0.7)},
		{6, timeline.Waiting, timeline.Groups, "synchronize_rcu", ms(7)},
		{6, timeline.OnCPU, timeline.Code, "", ms(0.05)},
		{6, timeline.Waiting, timeline.Groups, "synchronize_rcu", ms(6.5)},
		{7, timeline.OnCPU, timeline.Code, "", ms(12)},
		{7, timeline.InCall, timeline.Names, "unshare", ms(2)},
		{8, timeline.OnCPU, timeline.Code, "", ms(54)},
		{8, timeline.InCall, timeline.Network, "sendto", ms(2.4)},
		{7, timeline.Unknown, timeline.Other, "", ms(1.1)},
		{7, timeline.InCall, timeline.Security, "seccomp", ms(0.9)},
		{9, timeline.InCall, timeline.Program, "execve", ms(0.4)},
	}
}

// Runc is a start by that runtime alone, with numbers that nobody has measured.
func Runc(trial bench.Trial) timeline.Timeline {
	ms := func(v float64) time.Duration { return time.Duration(v * float64(time.Millisecond)) }
	return Start(trial, []timeline.Lane{
		{Process: 2300, Name: "tare", Role: "tare", Parent: -1},
		{Process: 2310, Name: "runc", Role: "runc", Parent: 0},
		{Process: 2320, Name: "runc", Role: "runc init", Parent: 1},
		{Process: 2330, Name: "runc", Role: "runc", Parent: 0},
		{Process: 2320, Name: "tare-agent", Role: "program", Parent: 2},
	}, 5, []Step{
		{0, timeline.InCall, timeline.Processes, "clone", ms(0.6)},
		{1, timeline.OnCPU, timeline.Code, "", ms(13)},
		{1, timeline.Waiting, timeline.Groups, "synchronize_rcu", ms(6)},
		{2, timeline.OnCPU, timeline.Code, "", ms(11.5)},
		{2, timeline.InCall, timeline.Names, "unshare", ms(1.8)},
		{3, timeline.OnCPU, timeline.Code, "", ms(12.6)},
		{2, timeline.InCall, timeline.Security, "seccomp", ms(0.5)},
		{4, timeline.InCall, timeline.Program, "execve", ms(0.4)},
	})
}
