package supervise_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/supervise"
	"github.com/tare-bench/tare/internal/workload/workloadtest"
)

// job is a load of the agent's.
func job(spec bench.Spec, words ...string) supervise.Job {
	return supervise.Job{Spec: spec, Load: words}
}

// servingJob is a load that goes on when it has reported.
func servingJob(spec bench.Spec, words ...string) supervise.Job {
	j := job(spec, words...)
	j.KeepsRunning = true
	return j
}

// Jobs share a container where none loses what it asked for.
func TestJoin(t *testing.T) {
	e := engines(t)["native"]
	ports := []bench.Port{{Container: 1, Protocol: "tcp"}}
	disk := bench.Spec{Storage: "volume", Data: "/data"}
	network := bench.Spec{Network: "bridge", Reach: "published", Ports: ports, Env: []string{"A=1"}}
	for name, test := range map[string]struct {
		jobs []supervise.Job
		want bool
	}{
		"one":                          {[]supervise.Job{job(disk, "disk")}, true},
		"nothing":                      {nil, false},
		"different wishes":             {[]supervise.Job{job(bench.Spec{}, "cpu"), job(disk, "disk"), job(network, "net")}, true},
		"two storages":                 {[]supervise.Job{job(disk, "disk"), job(bench.Spec{Storage: "layer"}, "disk")}, false},
		"two networks":                 {[]supervise.Job{job(network, "net"), job(bench.Spec{Network: "host"}, "net")}, false},
		"two ways to one network":      {[]supervise.Job{job(network, "net"), job(bench.Spec{Network: "bridge"}, "net")}, false},
		"other limits":                 {[]supervise.Job{job(disk, "disk"), job(bench.Spec{Limits: bench.Limits{CPUs: 1}}, "cpu")}, false},
		"another program":              {[]supervise.Job{job(disk, "disk"), {Spec: bench.Spec{Image: "host:fio"}}}, false},
		"a server with clients":        {[]supervise.Job{job(disk, "disk"), servingJob(network, "net"), servingJob(network, "net")}, true},
		"something beside a server":    {[]supervise.Job{servingJob(network, "net"), job(disk, "disk")}, false},
		"two servers, one after other": {[]supervise.Job{servingJob(network, "net"), servingJob(network, "other")}, false},
	} {
		var fixtures []bench.Fixture
		for _, j := range test.jobs {
			fixtures = append(fixtures, supervise.NewJobs(bench.Task{Engine: e}, j))
		}
		if _, ok := supervise.NewBatch(fixtures...); ok != test.want {
			t.Errorf("%s: joined %v, want %v", name, ok, test.want)
		}
	}
	if _, ok := supervise.NewBatch(supervise.NewJobs(bench.Task{Engine: e}, job(disk, "disk"), job(disk, "disk"))); ok {
		t.Error("joined what needs two containers")
	}
}

// Jobs in one container, in and out of isolation: each is told of what it found,
// and of what was counted meanwhile and not before.
func TestShift(t *testing.T) {
	for name, e := range engines(t) {
		t.Run(name, func(t *testing.T) {
			_, err := e.Probe(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var finished []string
			finish := func(_ context.Context, p *supervise.Process, m bench.Meter, r *load.Report) error {
				finished = append(finished, r.Load)
				supervise.RecordReport(m, r)
				return nil
			}
			memory, cpu := job(bench.Spec{}, "memory", "time=20ms", "size=64MiB"), job(bench.Spec{}, "cpu",
				"time=20ms", "kernels=prime")
			memory.Finish = finish
			batch, ok := supervise.NewBatch(supervise.NewJobs(bench.Task{Engine: e}, memory), supervise.NewJobs(bench.Task{Engine: e}, cpu))
			if !ok {
				t.Fatal("not joined")
			}
			if err := batch.Reset(t.Context()); err != nil {
				t.Fatal(err)
			}
			all, first, second := workloadtest.NewMeter(t), workloadtest.NewMeter(t), workloadtest.NewMeter(t)
			as := func(err error) error { return err }
			sinks := []supervise.PartSink{{Recorder: first, Err: as}, {Number: 1, Recorder: second, Err: as}}
			if err := batch.Work(t.Context(), all, sinks); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"memory"}, finished); diff != "" {
				t.Errorf("finished (-want +got):\n%s", diff)
			}
			if first.Values["memory.copy"] <= 0 || second.Values["cpu.single"] <= 0 || first.Values["cpu.single"] != 0 {
				t.Errorf("found %v and %v", first.Values, second.Values)
			}
			// Three arrays are touched by the first, none by the second.
			if a, b := first.Values["inside.page_faults"], second.Values["inside.page_faults"]; a < 10*max(b, 1) {
				t.Errorf("%v page faults while memory was filled, %v while not", a, b)
			}
			argv := supervise.Loads(nil, memory.Load, cpu.Load)
			if diff := cmp.Diff(argv, all.Got.Argv); diff != "" {
				t.Errorf("applied (-want +got):\n%s", diff)
			}
		})
	}
}

// An error of one job is passed to who listens to it, who may let the others go on.
func TestShiftGoesOn(t *testing.T) {
	e := engines(t)["native"]
	broken := errors.New("broken")
	bad, good := job(bench.Spec{}, "cpu", "time=10ms", "kernels=prime"), job(bench.Spec{}, "cpu",
		"time=10ms", "kernels=sort")
	bad.Finish = func(context.Context, *supervise.Process, bench.Meter, *load.Report) error { return broken }
	for swallow, want := range map[bool]error{true: nil, false: broken} {
		batch, _ := supervise.NewBatch(supervise.NewJobs(bench.Task{Engine: e}, bad), supervise.NewJobs(bench.Task{Engine: e}, good))
		m, failed := workloadtest.NewMeter(t), workloadtest.NewMeter(t)
		err := batch.Work(t.Context(), m, []supervise.PartSink{
			{Recorder: failed, Err: func(err error) error {
				if swallow {
					return nil
				}
				return err
			}},
			{Recorder: m, Err: func(err error) error { return err }},
		})
		if !errors.Is(err, want) || (m.Values["cpu.single"] > 0) != swallow {
			t.Errorf("swallow %v: %v, values %v", swallow, err, m.Values)
		}
		if len(failed.Values) > 0 {
			t.Errorf("swallow %v: of the job that failed: %v", swallow, failed.Values)
		}
	}
}

// A server whose client took turns lives until all cells have measured: its removal is work that the others would feel.
func TestServerStays(t *testing.T) {
	e := engines(t)["native"]
	server := servingJob(bench.Spec{Env: []string{"TARE_NET_TOKEN=0123456789abcdef"}}, "net-server", "port=0")
	server.Finish = func(context.Context, *supervise.Process, bench.Meter, *load.Report) error { return nil }
	for name, work := range map[string]func(bench.Task) error{
		"alone": func(task bench.Task) error {
			task.Fixture = supervise.NewJobs(task, server)
			return supervise.RunTrial(t.Context(), task, workloadtest.NewMeter(t))
		},
		"in a batch": func(task bench.Task) error {
			batch, _ := supervise.NewBatch(supervise.NewJobs(task, server), supervise.NewJobs(task, server))
			m := workloadtest.NewMeter(t)
			sink := supervise.PartSink{Recorder: m, Err: func(err error) error { return err }}
			return batch.Work(t.Context(), m, []supervise.PartSink{sink, sink})
		},
	} {
		from := &alone{}
		if err := work(bench.Task{Engine: e, Turns: from}); err != nil || from.stages != 1 {
			t.Errorf("%s: %v, waited for the others %d times", name, err, from.stages)
		}
	}
}
