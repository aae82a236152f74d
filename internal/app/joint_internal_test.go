package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/experiment"
	"github.com/tare-bench/tare/internal/remote/peer"
	"github.com/tare-bench/tare/internal/run"
	"github.com/tare-bench/tare/internal/store/sqlite"
)

// hostHere serves a host in this process, whose clock is ahead, and begins a session with it.
func hostHere(t *testing.T, h *jointHost, ahead time.Duration) (dir string) {
	t.Helper()
	dir = t.TempDir()
	a, err := New(Config{Version: "test", Now: func() time.Time { return time.Now().Add(ahead) }}).WithState(dir)
	if err != nil {
		t.Fatal(err)
	}
	in, toHost, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fromHost, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		err := a.Host(context.Background(), in, out, dir, netip.Addr{})
		_ = errors.Join(in.Close(), out.Close()) // the session may have closed them
		ended <- err
	}()
	h.session, err = peer.Dial(t.Context(), peer.Target{Host: h.name, Version: "test"}, fromHost, toHost)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = h.session.Close() // the host may have ended it
		if err := <-ended; err != nil {
			t.Errorf("host %s: %v", h.name, err)
		}
	})
	return dir
}

// planBlocks plans so many blocks of one trial.
func planBlocks(t *testing.T, together *Together, blocks int) {
	t.Helper()
	planText(t, together, "workload: lifecycle\n", blocks)
}

// planText plans so many blocks of one trial of an experiment.
func planText(t *testing.T, together *Together, text string, blocks int) {
	t.Helper()
	e, err := experiment.Parse("test.yaml", fmt.Appendf(nil, "name: test\n%s"+
		"factors: {engine: [native]}\nblocks: %d\nwarmup: 0\nwashout: off\nprecision: off\n", text, blocks))
	if err != nil {
		t.Fatal(err)
	}
	if err := together.plan(t.Context(), e); err != nil {
		t.Fatal(err)
	}
}

func openStore(t *testing.T) bench.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "tare.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // what is in it is not kept
	return s
}

// Hosts whose clocks differ by an hour begin their blocks together, and their records have the times
// of the machine that has started them.
func TestClocksDiffer(t *testing.T) {
	together := newTogether("joint", []string{"early", "late"})
	dirs := []string{
		hostHere(t, together.hosts[0], -30*time.Minute), hostHere(t, together.hosts[1], 30*time.Minute),
	}
	for i, want := range []time.Duration{30 * time.Minute, -30 * time.Minute} {
		h := together.hosts[i]
		if err := h.setShift(t.Context()); err != nil {
			t.Fatal(err)
		}
		if off := (h.shift - want).Abs(); off > 10*time.Second {
			t.Errorf("host %s: shift %v, want %v", h.name, h.shift, want)
		}
	}
	planBlocks(t, together, 3)
	s := openStore(t)
	client, err := New(Config{Version: "test"}).WithState(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := client.MeasureTogether(t.Context(), s, together, Options{}); err != nil {
		t.Fatal(err)
	}
	var runs []*bench.Run
	for i, id := range together.Runs() {
		r, err := s.Open(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, r)
		want := []time.Duration{-30 * time.Minute, 30 * time.Minute}[i]
		if r.Header.Joint == nil || (r.Header.Joint.Ahead-want).Abs() > 10*time.Second {
			t.Errorf("run %s: %+v, want %v ahead", id, r.Header.Joint, want)
		}
		for _, sample := range r.Samples {
			if sample.Began.Before(began.Add(-10*time.Second)) || sample.Began.After(time.Now().Add(10*time.Second)) {
				t.Errorf("run %s: trial %d began at %v, not between %v and now", id, sample.Trial.Seq, sample.Began, began)
			}
		}
		if _, err := os.Stat(filepath.Join(dirs[i], "run.jsonl")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("host %d keeps its records: %v", i, err)
		}
	}
	if a, b := len(runs[0].Samples), len(runs[1].Samples); a != 3 || b != a {
		t.Errorf("%d and %d trials, want 3 each", a, b)
	}
}

// A clock that is seconds away from the one here is told, with its direction; that of every other host is not.
func TestClocksApart(t *testing.T) {
	together := newTogether("joint", []string{"here", "near", "ahead", "behind"})
	for i, ahead := range []time.Duration{0, -2 * time.Second, time.Hour, -90 * time.Second} {
		together.hosts[i].shift = -ahead
	}
	want := []string{
		"the clock of ahead is 1h ahead of the one here, which gives all times",
		"the clock of behind is 1m 30s behind the one here, which gives all times",
	}
	if got := together.ClocksApart(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A partWatcher keeps what it is told of a run, until its first trial has ended.
type partWatcher struct {
	NopObserver
	parts []string
	ended bool
}

func (w *partWatcher) OnEvent(e run.Event) {
	switch e := e.(type) {
	case run.PartBegan:
		if !w.ended {
			w.parts = append(w.parts, e.Part)
		}
	case run.TrialEnded:
		w.ended = true
	}
}

// While a long trial runs on a host, whoever watches here is told its parts.
func TestPartsAreTold(t *testing.T) {
	together := newTogether("joint", []string{"there"})
	hostHere(t, together.hosts[0], 0)
	planText(t, together, "workload: host\nparams: {idle.time: 300ms, idle.calm: 0s, cpu.time: 300ms, memory.time: 20ms, "+
		"disk.time: 20ms, disk.size: 4MiB, net-throughput.time: 20ms, density.count: 2, density.idle: 100ms}\n", 1)
	watcher := &partWatcher{}
	client, err := New(Config{Version: "test", Observer: watcher}).WithState(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := client.MeasureTogether(t.Context(), openStore(t), together, Options{}); err != nil {
		t.Fatal(err)
	}
	if told := strings.Join(watcher.parts, "; "); !watcher.ended || !strings.Contains(told, "cpu, memory") {
		t.Errorf("parts %q were told before the trial ended (%v)", watcher.parts, watcher.ended)
	}
}

// A noSpaceStore has no space for samples.
type noSpaceStore struct{ bench.Store }

func (s noSpaceStore) Create(ctx context.Context, h bench.Header) (bench.RunWriter, error) {
	w, err := s.Store.Create(ctx, h)
	return noSpaceWriter{w}, err
}

type noSpaceWriter struct{ bench.RunWriter }

func (noSpaceWriter) Append(context.Context, bench.Sample) error { return errors.New("no space") }

// Once the machine that started it is gone, a host finishes the trial in flight: for a minute, or for as long as a
// trial may take.
func TestTrialInFlight(t *testing.T) {
	for limit, most := range map[time.Duration]time.Duration{time.Second: time.Minute, 5 * time.Minute: 5 * time.Minute} {
		for _, takes := range []time.Duration{most - time.Second, most + time.Second} {
			synctest.Test(t, func(t *testing.T) {
				h := &hosted{interrupt: func() {}, ended: make(chan struct{})}
				h.ctx, h.cancel = context.WithCancel(t.Context())
				err := h.begin(limit, func(ctx context.Context, _ Options) error { return bench.Sleep(ctx, takes) })
				if err != nil {
					t.Fatal(err)
				}
				h.leave()
				if aborted := h.last.Error != ""; aborted != (takes > most) {
					t.Errorf("a trial of %v of at most %v: aborted %v, %s", takes, limit, aborted, h.last.Error)
				}
			})
		}
	}
}

// An engine that one host lacks cannot be used, and the host is known.
func TestEngineOnSomeHosts(t *testing.T) {
	together := newTogether("joint", []string{"a", "b"})
	docker, podman := Instance{Name: "docker"}, Instance{Name: "podman"}
	together.hosts[0].survey.Engines = []surveyedEngine{{Instance: docker}, {Instance: podman}}
	together.hosts[1].survey.Engines = []surveyedEngine{{Instance: docker}, {Instance: podman, Why: "no socket"}}
	all := together.everywhere([]Instance{docker, podman})
	if all[0].Err != nil || all[0].Lacking != nil {
		t.Errorf("what both have: %v, %q", all[0].Err, all[0].Lacking)
	}
	if all[1].Err == nil || !slices.Equal(all[1].Lacking, []string{"b"}) {
		t.Errorf("what b lacks: %v, %q", all[1].Err, all[1].Lacking)
	}
}

func TestRunNames(t *testing.T) {
	for _, tt := range []struct {
		name  string
		hosts int
		want  []string
	}{
		{"", 2, []string{"", ""}}, {"x", 0, []string{"x"}}, {"x", 1, []string{"x"}}, {"x", 2, []string{"x-1", "x-2"}},
	} {
		if got := RunNames(tt.name, make([]string, tt.hosts)); !slices.Equal(got, tt.want) {
			t.Errorf("%q on %d hosts: %q, want %q", tt.name, tt.hosts, got, tt.want)
		}
	}
}

// What cannot be stored ends the runs soon, and stays on the hosts.
func TestNoSpace(t *testing.T) {
	const blocks = 400
	together := newTogether("joint", []string{"a", "b"})
	dirs := []string{hostHere(t, together.hosts[0], 0), hostHere(t, together.hosts[1], 0)}
	planBlocks(t, together, blocks)
	client, err := New(Config{Version: "test"}).WithState(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	err = client.MeasureTogether(t.Context(), noSpaceStore{openStore(t)}, together, Options{})
	const want = "host a is given up: what it has sent cannot be stored: run joint-1: no space"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("MeasureTogether = %v, want %s", err, want)
	}
	for _, dir := range dirs {
		text, err := os.ReadFile(filepath.Join(dir, "run.jsonl"))
		if n := bytes.Count(text, []byte("\n")); err != nil || n < 2 || n > blocks/2 {
			t.Errorf("the host keeps %d lines, %v; want the header and a few trials of %d", n, err, blocks)
		}
	}
}

// What a host still measures, whose connection was lost, is fetched once it has ended that.
func TestFetchWaits(t *testing.T) {
	h := newTogether("joint", []string{"a", "b"}).hosts[0]
	dir := hostHere(t, h, 0)
	former, err := New(Config{Version: "test"}).WithState(dir)
	if err != nil {
		t.Fatal(err)
	}
	measures, err := former.newRunDir(filepath.Base(dir), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := h.session.Stream(ctx, opRecords, struct{}{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while it measures: %v, want to wait", err)
	}
	if err := measures.remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := h.session.Stream(t.Context(), opRecords, struct{}{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("once it has ended: %v, want an answer", err)
	}
}

// What a host sends that was not asked for is refused.
func TestForeignRunIsRefused(t *testing.T) {
	h := newTogether("joint", []string{"a", "b"}).hosts[0]
	plan := bench.Plan{Name: "x", Cells: []bench.Cell{{Name: "native"}}}
	good := bench.Header{ID: "joint-1", Plan: plan, Joint: &bench.Joint{ID: "joint", Host: "a", Hosts: []string{"a", "b"}}}
	if err := h.checkHeader(&good, &plan); err != nil {
		t.Errorf("the right run is refused: %v", err)
	}
	for name, change := range map[string]func(*bench.Header){
		"another run":  func(g *bench.Header) { g.ID = "joint-2" },
		"no joint":     func(g *bench.Header) { g.Joint = nil },
		"another host": func(g *bench.Header) { g.Joint = &bench.Joint{ID: "joint", Host: "b", Hosts: good.Joint.Hosts} },
		"other hosts":  func(g *bench.Header) { g.Joint = &bench.Joint{ID: "joint", Host: "a", Hosts: []string{"a"}} },
		"another plan": func(g *bench.Header) { g.Plan.Hooks = []bench.Hook{{Do: bench.HookCommand}} },
	} {
		bad := good
		change(&bad)
		if h.checkHeader(&bad, &plan) == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

func TestCheckHosts(t *testing.T) {
	for _, bad := range [][]string{{"a", "a"}, {""}, {"-x"}, make([]string, bench.MaxJoint+1)} {
		if err := CheckHosts(bad); err == nil {
			t.Errorf("%q are taken for hosts", bad)
		}
	}
	if err := CheckHosts([]string{"a", "root@b"}); err != nil {
		t.Error(err)
	}
}
