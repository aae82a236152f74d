package http_test

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
	loads "github.com/tare-bench/tare/internal/load/http"
	"github.com/tare-bench/tare/internal/supervise"
	"github.com/tare-bench/tare/internal/workload/http"
	"github.com/tare-bench/tare/internal/workload/localtest"
	"github.com/tare-bench/tare/internal/workload/workloadtest"
)

// countingEngine counts the containers that are made, and makes no more than most; 0 = any
// number.
type countingEngine struct {
	bench.Engine
	made, most int
}

var errTooMany = errors.New("it has made enough")

func (c *countingEngine) Unwrap() bench.Engine { return c.Engine }

func (c *countingEngine) Create(ctx context.Context, spec bench.Spec) (bench.Container, error) {
	if c.made++; c.most > 0 && c.made > c.most {
		return nil, errTooMany
	}
	return c.Engine.Create(ctx, spec)
}

// setUp sets one stage up for each of the options.
func setUp(t *testing.T, e bench.Engine, specs []bench.Spec, given ...map[string]string) []bench.Fixture {
	t.Helper()
	w := workload(t)
	var all []bench.Fixture
	for i, g := range given {
		task := workloadtest.Task(w, e, specs[i%len(specs)])
		task.Client, task.Dir = localtest.Native(t), t.TempDir()
		maps.Copy(task.Params, params(t, g))
		f, err := w.(bench.Fixturer).Setup(t.Context(), task)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := f.Remove(context.Background()); err != nil {
				t.Error(err)
			}
		})
		all = append(all, f)
	}
	return all
}

// share has stages share a server.
func share(t *testing.T, stages []bench.Fixture) supervise.Batched {
	t.Helper()
	shared, ok := supervise.NewBatch(stages...)
	if !ok {
		t.Fatal("not shared")
	}
	return shared
}

func TestWhoSharesAServer(t *testing.T) {
	e := localtest.Native(t)
	for name, test := range map[string]struct {
		other map[string]string
		spec  bench.Spec
		want  bool
	}{
		"another load": {
			map[string]string{"connections": "100", "requests": "500", "repeat": "3", "keepalive": "no", "path": "/index.html"},
			bench.Spec{},
			true,
		},
		"another size":        {map[string]string{"size": "2KB"}, bench.Spec{}, false},
		"another server":      {map[string]string{"server": ""}, bench.Spec{}, false},
		"encrypted":           {map[string]string{"tls": "yes"}, bench.Spec{}, false},
		"room for them all":   {map[string]string{"connections": "500"}, bench.Spec{}, true},
		"more than nginx has": {map[string]string{"connections": "600"}, bench.Spec{}, false},
		"another container":   {nil, bench.Spec{Env: []string{"A=1"}}, false},
	} {
		first := map[string]string{"server": "nginx"}
		second := maps.Clone(first)
		maps.Copy(second, test.other)
		if _, ok := supervise.NewBatch(setUp(t, e, []bench.Spec{{}, test.spec}, first, second)...); ok != test.want {
			t.Errorf("%s: shared %v, want %v", name, ok, test.want)
		}
	}
	if _, ok := supervise.NewBatch(setUp(t, e, []bench.Spec{{}}, nil)[0], supervise.NewJobs(bench.Task{Engine: e})); ok {
		t.Error("shared with what is no server")
	}
}

// Loads of one server are measured each by itself: it is started once, was at rest
// once, and works for each of them.
func TestSharedServer(t *testing.T) {
	e := &countingEngine{Engine: localtest.Native(t)}
	stages := setUp(t, e, []bench.Spec{{}},
		map[string]string{"requests": "300", "repeat": "3", "time": "20s"}, map[string]string{"rate": "500"},
		map[string]string{"time": "500ms"}, map[string]string{"requests": "1", "connections": "1", "warmup": "0s"})
	shared := share(t, stages)
	if err := shared.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	all, meters, sinks := workloadtest.NewMeter(t), make([]*workloadtest.Meter, len(stages)),
		make([]supervise.PartSink, len(stages))
	for i := range stages {
		meters[i] = workloadtest.NewMeter(t)
		sinks[i] = supervise.PartSink{Recorder: meters[i], Err: as}
	}
	if err := shared.Work(t.Context(), all, sinks); err != nil {
		t.Fatal(err)
	}
	if e.made != 1 || len(all.Values) > 0 || len(all.Got.Path) == 0 {
		t.Errorf("%d servers were made; of all together %v, %+v", e.made, all.Values, all.Got)
	}
	for i, requests := range []float64{900, 0, 0, 1} { // 0: as many as there is time for
		v := meters[i].Values
		if requests > 0 && v[http.Requests] != requests || v[http.Rate] <= 0 || v[http.Failed] != 0 {
			t.Errorf("load %d: %v", i, v)
		}
		if open := !slices.Contains(meters[i].Notes, loads.NoteClosedLoop); open != (i == 1) ||
			open != (v["http.offered"] > 0) {
			t.Errorf("load %d: open %v, notes %v", i, open, meters[i].Notes)
		}
		if rest := v["http.memory_rest"]; rest <= 0 || rest != meters[0].Values["http.memory_rest"] ||
			v["http.memory_load"] <= 0 {
			t.Errorf("load %d: memory %v and %v", i, rest, v["http.memory_load"])
		}
	}
	used := func(i int) float64 { return meters[i].Values["http.cpu_per_request"] * meters[i].Values[http.Requests] }
	if before, one := used(2), used(3); one > before/2 {
		t.Errorf("%v s of CPU time for one request, after %v s for half a second of them", one, before)
	}
}

func as(err error) error { return err }

// busyEngine is an engine whose processes have each made so many system calls.
type busyEngine struct {
	bench.Engine
	calls float64
}

func (b *busyEngine) Unwrap() bench.Engine    { return b.Engine }
func (b *busyEngine) SystemCalls(int) float64 { return b.calls }

// A load that fails is told to who listens to it, who may let the next one begin: what
// was counted meanwhile is not that one's. Where the server does not come about nobody is
// told, and all have failed.
func TestSharedServerGoesOn(t *testing.T) {
	e := &busyEngine{Engine: localtest.Native(t)}
	good := map[string]string{"requests": "50"}
	shared := share(t, setUp(t, e, []bench.Spec{{}}, good, map[string]string{"path": "/missing", "requests": "5"}, good))
	all, first, bad, last := workloadtest.NewMeter(t), workloadtest.NewMeter(t),
		workloadtest.NewMeter(t), workloadtest.NewMeter(t)
	var failed error
	does := func(n float64, hear func(error) error) func(error) error {
		return func(err error) error { e.calls += n; return hear(err) }
	}
	err := shared.Work(t.Context(), all, []supervise.PartSink{
		{Recorder: first, Err: does(7, as)}, {Recorder: bad, Err: does(1000, func(err error) error { failed = err; return nil })}, {Recorder: last, Err: does(7, as)},
	})
	if err != nil || failed == nil || !strings.Contains(failed.Error(), "status 404") || len(bad.Values) > 0 {
		t.Errorf("%v; of the load that fails %v, %v", err, failed, bad.Values)
	}
	if first.Values[http.Requests] != 50 || last.Values[http.Requests] != 50 {
		t.Errorf("the others: %v, %v", first.Values, last.Values)
	}
	if a, b := first.Values[supervise.SystemCalls], last.Values[supervise.SystemCalls]; a <= 0 || a != b {
		t.Errorf("%v system calls in the first load and %v in the last, want the same", a, b)
	}
	l, err := net.Listen("tcp4", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	good["port"] = strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	shared = share(t, setUp(t, e, []bench.Spec{{}}, good, good))
	told := func(err error) error { t.Errorf("somebody is told of %v", err); return err }
	err = shared.Work(t.Context(), workloadtest.NewMeter(t),
		[]supervise.PartSink{{Recorder: first, Err: told}, {Recorder: last, Err: told}})
	if err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("%v", err)
	}
}

// What a cell can do is not known from the one try that went well.
func TestRehearsalThatFails(t *testing.T) {
	w := workload(t)
	task := workloadtest.Task(w, localtest.Native(t), bench.Spec{})
	task.Client, task.Dir = &countingEngine{Engine: localtest.Native(t), most: 1}, t.TempDir()
	maps.Copy(task.Params, params(t, map[string]string{"rate": "50%"}))
	if err := w.(bench.Calibrator).Calibrate(t.Context(), task); err == nil ||
		!strings.Contains(err.Error(), "of 5 tries failed, the first: ") {
		t.Errorf("learned although its client was made once: %v", err)
	}
}
