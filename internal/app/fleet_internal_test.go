package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/experiment"
	"github.com/tare-bench/tare/internal/fleet"
	"github.com/tare-bench/tare/internal/fleet/cluster"
	"github.com/tare-bench/tare/internal/fleet/kube/kubetest"
	"github.com/tare-bench/tare/internal/fleet/odd"
	"github.com/tare-bench/tare/internal/fleet/pairs"
	"github.com/tare-bench/tare/internal/fleet/pod"
	"github.com/tare-bench/tare/internal/fleet/podlog"
	fleetreport "github.com/tare-bench/tare/internal/report/fleet"
	"github.com/tare-bench/tare/internal/schedule"
	"github.com/tare-bench/tare/internal/store/record"
	"github.com/tare-bench/tare/internal/store/sqlite"
)

// playedFleet is a cluster whose pods measure nothing: they write what a test wants.
type playedFleet struct {
	t      *testing.T
	server *kubetest.Server
	store  bench.Store
	app    *App

	mu     sync.Mutex
	random *rand.Rand
	// slow is how much slower nodes are, as a share; steal is their stolen time.
	slow, steal map[string]float64
	passes      []string // NODE/PASS of each pod that ran
	spoil       func(node string, log []byte) []byte
	fault       atomic.Pointer[func(*http.Request) *kubetest.Fault] // see kubetest.Options; nil = none
}

func playFleet(t *testing.T, nodes ...string) *playedFleet {
	t.Helper()
	return playFleetIn(t, kubetest.Options{}, nodes...)
}

// playFleetIn is playFleet in a cluster with options, whose Run may play pods otherwise.
func playFleetIn(t *testing.T, o kubetest.Options, nodes ...string) *playedFleet {
	t.Helper()
	p := &playedFleet{
		t: t, random: rand.New(rand.NewPCG(1, 2)), slow: map[string]float64{}, steal: map[string]float64{},
		spoil: func(_ string, log []byte) []byte { return log },
	}
	if o.Run == nil {
		o.Run = p.pod
	}
	o.Fault = func(r *http.Request) *kubetest.Fault {
		if fault := p.fault.Load(); fault != nil {
			return (*fault)(r)
		}
		return nil
	}
	p.server = kubetest.Start(t, o, nodes...)
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "tare.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	p.store = s
	a, err := New(Config{Version: "test"}).WithState(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	p.app = a
	return p
}

// pod plays a pod: it has all rounds in its log at once.
func (p *playedFleet) pod(process *kubetest.Process) kubetest.Ending {
	process.Running()
	var order fleet.Order
	var plan bench.Plan
	text, _ := process.File(fleet.OrderDir + "/" + fleet.OrderFile)
	source, _ := process.File(fleet.OrderDir + "/" + fleet.SourceFile)
	if err := errors.Join(json.Unmarshal(text, &order), json.Unmarshal(source, &plan)); err != nil {
		return kubetest.Ending{Code: 1, Message: err.Error()}
	}
	var start fleet.Start
	for {
		if text, ok := process.File(fleet.StartDir + "/" + fleet.StartFile); ok && json.Unmarshal(text, &start) == nil {
			break
		}
		select {
		case <-process.Context().Done():
			return kubetest.Ending{Code: 143}
		case <-time.After(5 * time.Millisecond):
		}
	}
	var log strings.Builder
	digest, err := p.write(&log, process, order, plan, start)
	if err != nil {
		return kubetest.Ending{Code: 1, Message: err.Error()}
	}
	p.mu.Lock()
	written := p.spoil(process.Node, []byte(log.String()))
	p.mu.Unlock()
	_, _ = process.Write(written) // it keeps it in memory
	return kubetest.Ending{Message: string(digest.Message())}
}

// write writes the log of a pod, whose values are what the test wants of the node.
func (p *playedFleet) write(
	log *strings.Builder, process *kubetest.Process, order fleet.Order, plan bench.Plan, start fleet.Start,
) (podlog.Digest, error) {
	pass, _ := strconv.Atoi(process.Env(fleet.EnvPass))
	rounds := order.Rounds
	if pass == 2 {
		rounds = order.Confirm
	}
	w := podlog.NewWriter(log)
	err := w.Hello(podlog.Hello{Wall: time.Now(), Node: process.Node, Pass: pass, Arch: "amd64", Tool: "test"})
	plan = podPlan(plan, order.Fleet, process.Node, pass, rounds)
	steal := bench.Metric{
		Name: "steal_time", Title: "steal", Unit: "s", Better: bench.Lower, Role: bench.Counter, Scale: bench.Difference,
		Doc: "d.",
	}
	header := bench.Header{
		ID: fleet.RunID(order.Fleet, pass, process.Node), Tool: "test", Began: start.Began, Plan: plan,
		Schedule: schedule.Blocks(plan), Metrics: append(workloadNamed(plan.Workload).Metrics(), steal),
		Engines: []bench.EngineInfo{{Name: "native"}}, Host: bench.HostFacts{Hostname: process.Node, CPUs: 1},
	}
	records, createErr := record.NewWriter(w, header)
	if err = errors.Join(err, createErr); err != nil {
		return podlog.Digest{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.passes = append(p.passes, process.Node+"/"+strconv.Itoa(pass))
	seq := 0
	for i, block := range header.Schedule {
		round := i - plan.Warmup
		for _, cell := range block {
			values := make([]float64, len(header.Metrics))
			for m := range values {
				values[m] = (1 - p.slow[process.Node]) * (1 + 0.002*p.random.NormFloat64())
			}
			values[len(values)-1] = p.steal[process.Node]
			err = errors.Join(err, records.Append(p.t.Context(), bench.Sample{
				Trial: bench.Trial{Seq: seq, Block: round, Cell: cell}, Outcome: bench.OK, Values: values,
				Began: start.Began.Add(time.Duration(round)*start.Round + time.Millisecond), Elapsed: time.Second,
				Counted: time.Second,
			}))
			seq++
		}
		err = errors.Join(err, w.Flush())
	}
	err = errors.Join(err, records.Finish(p.t.Context(), bench.End{Time: start.Began, Reason: bench.StopBlocks}))
	digest, endErr := w.End(podlog.Done, "")
	return digest, errors.Join(err, endErr)
}

// request is a fleet of the experiment cpu.
func (p *playedFleet) request() FleetRequest {
	p.t.Helper()
	text, _ := experiment.Builtin("cpu")
	e, err := experiment.Parse("cpu.yaml", text)
	if err != nil {
		p.t.Fatal(err)
	}
	return FleetRequest{
		Experiment: e, Rounds: 10, Round: time.Second, Confirm: 5, Image: "example.com/tare:1", Lead: time.Second,
	}
}

// run plans a fleet and runs it.
func (p *playedFleet) run(r FleetRequest) (*fleet.Fleet, error) {
	p.t.Helper()
	c := p.server.Client()
	found, err := p.app.PlanFleet(p.t.Context(), p.store, c, r)
	if err != nil {
		p.t.Fatal(err)
	}
	if len(found.Problems) > 0 {
		p.t.Fatalf("problems: %q", found.Problems)
	}
	err = p.app.RunFleet(p.t.Context(), p.store, c, &found.Plan, FleetHooks{
		Trouble: func(err error) { p.t.Logf("trouble: %v", err) },
	})
	f, findErr := FindFleet(p.t.Context(), p.store, found.Plan.Fleet.ID)
	if findErr != nil {
		p.t.Fatal(findErr)
	}
	return f, err
}

func nodeNames(n int) (all []string) {
	for i := range n {
		all = append(all, "node-"+strconv.Itoa(i+1))
	}
	return all
}

// A node that is slow is suspected, measured again beside ordinary ones, named, and its stolen time is said.
func TestFleetNamesTheSlowNode(t *testing.T) {
	t.Parallel() // it waits for a cluster
	p := playFleet(t, nodeNames(10)...)
	p.slow["node-4"], p.steal["node-4"] = 0.2, 0.09
	f, err := p.run(p.request())
	if err != nil {
		t.Fatal(err)
	}
	again := slices.DeleteFunc(slices.Clone(p.passes), func(s string) bool { return !strings.HasSuffix(s, "/2") })
	if len(again) < 2 || len(again) > 5 || !slices.Contains(again, "node-4/2") {
		t.Errorf("the second pass had %q, want node-4 and a few others", again)
	}
	in, unread, err := JudgeFleet(t.Context(), p.store, f)
	if err != nil || unread != nil {
		t.Fatal(err, unread)
	}
	for m := range in.Metrics {
		for n, finding := range in.Judged.Findings[m] {
			slow := in.Odd.Nodes[n] == "node-4"
			if (finding.Verdict == odd.Slow) != slow {
				t.Errorf("%s on %s: %s, effect %.3f", in.Metrics[m].Name, in.Odd.Nodes[n], finding.Verdict, finding.Effect)
			}
			if slow && !slices.Contains(in.Reasons[m][n], "stolen time 9 % (others 0 %)") {
				t.Errorf("reasons for %s: %q", in.Metrics[m].Name, in.Reasons[m][n])
			}
		}
	}
	for _, kind := range []string{"jobs", "pods", "configmaps", "secrets"} {
		if n := p.server.Objects(kind); n != 0 {
			t.Errorf("%d %s are left", n, kind)
		}
	}
}

// A fleet of alike nodes has no second pass and no odd node.
func TestFleetOfAlikeNodes(t *testing.T) {
	t.Parallel() // it waits for a cluster
	p := playFleet(t, nodeNames(8)...)
	f, err := p.run(p.request())
	if err != nil {
		t.Fatal(err)
	}
	if len(p.passes) != 8 || len(f.Starts) != 1 {
		t.Errorf("pods ran: %q, passes: %d", p.passes, len(f.Starts))
	}
}

// What a pod has written that is not its run, or is cut, is no number; the others are judged all the same.
func TestFleetWithBadLogs(t *testing.T) {
	t.Parallel() // it waits for a cluster
	p := playFleet(t, nodeNames(5)...)
	p.spoil = func(node string, log []byte) []byte {
		switch node {
		case "node-1":
			return []byte("tare: nothing\n\x1b[31m")
		case "node-2":
			return log[:len(log)/2]
		case "node-4": // a log that is whole, of what is no run
			var other bytes.Buffer
			w := podlog.NewWriter(&other)
			_, err := fmt.Fprintln(w, "no record")
			if err := errors.Join(err, w.Flush()); err != nil {
				t.Error(err)
			}
			return other.Bytes()
		}
		return log
	}
	f, err := p.run(p.request())
	if !errors.Is(err, ErrTrialsFailed) {
		t.Errorf("error %v, want that trials failed", err)
	}
	for node, want := range map[string]func(*fleet.Outcome) bool{
		"node-1": func(o *fleet.Outcome) bool { return o.State != fleet.Done && o.Run == "" },
		"node-2": func(o *fleet.Outcome) bool { return o.State != fleet.Done && o.Rounds < 10 },
		"node-3": func(o *fleet.Outcome) bool { return o.State == fleet.Done && o.Rounds == 10 },
		"node-4": func(o *fleet.Outcome) bool {
			return o.State == fleet.Failed && o.Run == "" && strings.Contains(o.Reason, "of no use: line 1")
		},
	} {
		if o := f.OutcomeOf(node, 1); o == nil || !want(o) {
			t.Errorf("%s: %+v", node, o)
		}
	}
	if in, _, err := JudgeFleet(t.Context(), p.store, f); err != nil || len(in.Metrics) == 0 {
		t.Errorf("judged: %v", err)
	}
}

// A fleet whose pods run when the cluster fails for a moment stays there, and can be gone on with. One whose Jobs are
// all refused goes.
func TestFleetThatDoesNotStart(t *testing.T) {
	t.Parallel() // it waits for a cluster
	p := playFleet(t, nodeNames(3)...)
	away := func(r *http.Request) *kubetest.Fault {
		if strings.HasSuffix(r.URL.Path, "-start-1") && p.server.Objects("pods") > 0 {
			return &kubetest.Fault{Code: http.StatusConflict, Message: "not now"}
		}
		return nil
	}
	p.fault.Store(&away)
	f, err := p.run(p.request())
	var problem *Problem
	if !errors.As(err, &problem) || problem.Kind != FleetStopped || p.server.Objects("pods") != 3 {
		t.Errorf("error %v, %d pods", err, p.server.Objects("pods"))
	}
	p.fault.Store(nil)
	if err := p.app.GatherFleet(t.Context(), p.store, p.server.Client(), f.ID, FleetHooks{}); err != nil {
		t.Error(err)
	}
	refused := func(r *http.Request) *kubetest.Fault {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/jobs") && !r.URL.Query().Has("dryRun") {
			return &kubetest.Fault{Code: http.StatusForbidden, Message: "no"}
		}
		return nil
	}
	p.fault.Store(&refused)
	f, err = p.run(p.request())
	if !errors.As(err, &problem) || problem.Kind != FleetFailed || p.server.Objects("configmaps") != 0 {
		t.Errorf("error %v, %d ConfigMaps", err, p.server.Objects("configmaps"))
	}
	for _, n := range f.Nodes {
		if o := f.OutcomeOf(n.Name, 1); o == nil || o.State != fleet.Failed || o.Reason == "" {
			t.Errorf("%s: %+v, want that it failed", n.Name, o)
		}
	}
}

// A client whose login has expired has not been refused: the fleet stays, and another login goes on with it.
func TestFleetWithExpiredLogin(t *testing.T) {
	t.Parallel() // it waits for a cluster
	p := playFleet(t, nodeNames(3)...)
	expired := func(r *http.Request) *kubetest.Fault {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/jobs") && !r.URL.Query().Has("dryRun") {
			return &kubetest.Fault{Code: http.StatusUnauthorized, Message: "Unauthorized"}
		}
		return nil
	}
	p.fault.Store(&expired)
	f, err := p.run(p.request())
	var problem *Problem
	if !errors.As(err, &problem) || problem.Kind != FleetStopped || p.server.Objects("configmaps") == 0 {
		t.Errorf("error %v, %d ConfigMaps", err, p.server.Objects("configmaps"))
	}
	p.fault.Store(nil)
	if err := p.app.GatherFleet(t.Context(), p.store, p.server.Client(), f.ID, FleetHooks{}); err != nil {
		t.Error(err)
	}
}

// runPod runs the pod's side of tare, of some version, with the clock of its node.
func runPod(t *testing.T, process *kubetest.Process, version string) kubetest.Ending {
	root := t.TempDir()
	mount := func(name string) {
		text, ok := process.File(name)
		to := filepath.Join(root, name)
		if _, err := os.Stat(to); !ok || err == nil {
			return
		}
		err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to+".new", text, 0o600),
			os.Rename(to+".new", to))
		if err != nil {
			t.Error(err)
		}
	}
	mount(fleet.OrderDir + "/" + fleet.OrderFile)
	mount(fleet.OrderDir + "/" + fleet.SourceFile)
	process.Running()
	site, err := pod.Open(root, process.Env)
	if err == nil {
		err = os.MkdirAll(site.Path("dev"), 0o755)
	}
	var a *App
	if err == nil {
		a, err = New(Config{Version: version, Now: process.Now}).WithState(site.Path("state"))
	}
	if err != nil {
		t.Error(err)
		return kubetest.Ending{Code: 1, Message: err.Error()}
	}
	defer func() { _ = a.Close() }() // it has no sessions
	ended := make(chan error)
	go func() { ended <- a.Pod(context.Background(), site, process, process.Context().Done()) }()
	for {
		select {
		case err := <-ended:
			message, _ := os.ReadFile(site.Path(fleet.DigestFile)) // the test says what is missing
			return kubetest.Ending{Code: btoi(err != nil), Message: string(message)}
		case <-time.After(50 * time.Millisecond):
			mount(fleet.StartDir + "/" + fleet.StartFile)
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Nodes whose clocks are off measure in the same rounds as the others, and it is known which they are.
func TestFleetWithSkewedClocks(t *testing.T) {
	t.Parallel() // it waits for a cluster
	off := map[string]time.Duration{"node-2": time.Hour, "node-3": -time.Hour, "node-4": -5 * time.Second}
	p := playFleetIn(t, kubetest.Options{
		Ahead: func(node string) time.Duration { return off[node] },
		Run:   func(process *kubetest.Process) kubetest.Ending { return runPod(t, process, "test") },
	}, nodeNames(4)...)
	r := p.request()
	r.Rounds, r.Round, r.Confirm, r.Lead = 3, 6*time.Second, 0, 15*time.Second // pods are slow on a busy machine
	err := r.Experiment.Override(experiment.Overrides{
		Params: []bench.Label{{Key: "time", Value: "10ms"}, {Key: "kernels", Value: "integer"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	f, err := p.run(r)
	if err != nil {
		t.Errorf("%v; outcomes: %+v", err, f.Outcomes)
	}
	in, unread, err := JudgeFleet(t.Context(), p.store, f)
	if err != nil || unread != nil || len(in.Odd.Metrics) == 0 {
		t.Fatal(err, unread)
	}
	for n, name := range in.Odd.Nodes {
		if allowed := f.AheadIn(1, name); (allowed - off[name]).Abs() > 2*time.Second {
			t.Errorf("%s: %v is allowed for, want %v", name, allowed, off[name])
		}
		if values := in.Odd.Metrics[0].Values[n]; len(values) != 3 || slices.ContainsFunc(values, math.IsNaN) {
			t.Errorf("%s has the values %v, want one in each round; its outcome: %+v", name, values, f.OutcomeOf(name, 1))
		}
	}
	warned := strings.Join(fleetreport.New(*in).Warnings, "\n")
	for name := range off {
		if !strings.Contains(warned, "the clock of "+name+" is ") || strings.Contains(warned, "did not begin") {
			t.Errorf("warnings:\n%s", warned)
		}
	}
}

// A pod of another version of tare measures nothing, and says why.
func TestFleetWithAnotherVersion(t *testing.T) {
	t.Parallel() // it waits for a cluster
	p := playFleetIn(t, kubetest.Options{
		Run: func(process *kubetest.Process) kubetest.Ending { return runPod(t, process, "older") },
	}, nodeNames(2)...)
	_, err := p.run(p.request())
	var problem *Problem
	const why = "its image has tare older, and the fleet was begun with test: push it again, and give --image by the digest"
	if !errors.As(err, &problem) || !strings.Contains(err.Error(), why) {
		t.Errorf("error %v", err)
	}
}

// Of round trips, those of a pod's own node and network are taken, no more than it can have measured, and those read
// last.
func TestTakeTrips(t *testing.T) {
	f := fleet.Fleet{Rounds: 2, Networks: []string{"pod", "host"}, Nodes: make([]fleet.Node, 3)}
	for i := range f.Nodes {
		f.Nodes[i].Name = "n" + strconv.Itoa(i)
	}
	kept := pairs.Trip{Meeting: pairs.Meeting{Client: 0, Server: 1}, Network: "pod", Seconds: 1}
	f.Trips = []pairs.Trip{kept, {Meeting: pairs.Meeting{Client: 1, Server: 0}, Network: "pod", Seconds: 9}}
	good := pairs.Trip{Meeting: pairs.Meeting{Client: 1, Server: 2}, Network: "pod", Seconds: 1}
	lost := good
	lost.Seconds, lost.Lost = 0, "no answer"
	bad := slices.Repeat([]pairs.Trip{good}, 7)
	bad[0].Client = 0
	bad[1].Server = 3
	bad[2].Round = 2
	bad[3].Network = "host"
	bad[4].Seconds = longestTrip
	bad[5].Seconds = 0
	bad[6].Bulk = true // nobody has asked for it
	r := &fleetRun{plan: &cluster.Plan{Fleet: f}}
	r.takeTrips(cluster.Part{Node: "n1", Pass: 1, Network: "pod", Trips: append(bad, good, lost)})
	if len(r.plan.Fleet.Trips) != 2 {
		t.Errorf("of what is not final, there is %+v", r.plan.Fleet.Trips)
	}
	r.takeTrips(cluster.Part{Node: "n1", Pass: 1, Network: "pod", Final: true, Trips: append(bad, good, lost)})
	if got := r.plan.Fleet.Trips; !slices.Equal(got, []pairs.Trip{kept, good, lost}) {
		t.Errorf("got %+v", got)
	}
	beside := good
	beside.Network = "host"
	for range 2 {
		r.takeTrips(cluster.Part{Node: "n1", Pass: 1, Network: "host", Final: true, Trips: []pairs.Trip{beside, good}})
		if got := r.plan.Fleet.Trips; !slices.Equal(got, []pairs.Trip{kept, good, lost, beside}) {
			t.Errorf("with those of the hosts' network: %+v", got)
		}
	}
	r.takeTrips(cluster.Part{Node: "n2", Pass: 1, Network: "pod", Final: true, Trips: slices.Repeat([]pairs.Trip{
		{Meeting: pairs.Meeting{Client: 2, Server: 1}, Network: "pod", Seconds: 1},
	}, 100)})
	if got := len(r.plan.Fleet.Trips); got != 4+2*3 {
		t.Errorf("%d round trips, want four and those of three meetings in each of two rounds", got)
	}
}

// What is wrong with a node's records is told from what is wrong with the store.
func TestSinkTellsRecordsFromStore(t *testing.T) {
	p := playFleet(t)
	f := fleet.Fleet{ID: "f", Rounds: 3, Source: `{"name":"cpu","workload":"cpu","cells":[{"name":"native"}]}`}
	var plan bench.Plan
	if err := json.Unmarshal([]byte(f.Source), &plan); err != nil {
		t.Fatal(err)
	}
	plan = podPlan(plan, "f", "node", 1, 3)
	sink := func(s bench.Store, took time.Duration, more string) (cluster.Stored, error) {
		var b strings.Builder
		h := bench.Header{
			ID: fleet.RunID("f", 1, "node"), Began: time.Unix(1, 0), Plan: plan, Schedule: schedule.Blocks(plan),
		}
		w, err := record.NewWriter(&b, h)
		if err == nil {
			sample := bench.Sample{Began: time.Unix(1, 0), Outcome: bench.OK, Elapsed: took}
			sample.Trial.Block = -plan.Warmup
			err = w.Append(t.Context(), sample)
		}
		if err != nil {
			t.Fatal(err)
		}
		r := &fleetRun{plan: &cluster.Plan{Fleet: f}, store: s}
		return r.sink(t.Context(), cluster.Part{Node: "node", Pass: 1, Records: []byte(b.String() + more)})
	}
	var bad *cluster.BadRecords
	if stored, err := sink(p.store, time.Second, "damaged\n"); err != nil || stored.Run == "" {
		t.Errorf("a damaged line: %+v, %v", stored, err)
	}
	if _, err := sink(p.store, time.Minute, ""); !errors.As(err, &bad) {
		t.Errorf("a run that has changed: %v", err)
	}
	if _, err := sink(EmptyStore{}, time.Second, ""); err == nil || errors.As(err, &bad) {
		t.Errorf("a store that takes nothing: %v", err)
	}
}

// The run of one node is not taken for that of another.
func TestSinkTakesOnlyTheNodesRun(t *testing.T) {
	f := fleet.Fleet{ID: "f", Rounds: 3, Source: `{"name":"cpu","workload":"cpu","cells":[{"name":"native"}]}`}
	r := &fleetRun{plan: &cluster.Plan{Fleet: f}, store: EmptyStore{}}
	var plan bench.Plan
	if err := json.Unmarshal([]byte(f.Source), &plan); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	h := bench.Header{ID: fleet.RunID("f", 1, "other"), Began: time.Now(), Plan: podPlan(plan, "f", "other", 1, 3)}
	if _, err := record.NewWriter(&b, h); err != nil {
		t.Fatal(err)
	}
	_, err := r.sink(t.Context(), cluster.Part{Node: "node", Pass: 1, Records: []byte(b.String())})
	var bad *cluster.BadRecords
	if !errors.Is(err, errOtherRun) || !errors.As(err, &bad) {
		t.Errorf("error %v, want %v", err, errOtherRun)
	}
	if stored, err := r.sink(t.Context(), cluster.Part{Node: "node", Pass: 1}); err != nil || stored.Run != "" {
		t.Errorf("nothing yet: %+v, %v", stored, err)
	}
}

// BenchmarkJudgeFleet is how long 'tare fleet show' takes for a fleet of that many nodes.
func BenchmarkJudgeFleet(b *testing.B) {
	const nodes = 1000
	s, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "tare.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	}()
	f := fleet.Fleet{ID: "f", Rounds: 10}
	plan := bench.Plan{
		Name: "cpu", Workload: "cpu", Cells: []bench.Cell{{Name: "native", Baseline: true}}, MinBlocks: 10, MaxBlocks: 10,
	}
	header := bench.Header{
		Began: time.Now(), Plan: plan, Schedule: schedule.Blocks(plan), Metrics: workloadNamed("cpu").Metrics(),
	}
	values := slices.Repeat([]float64{1}, len(header.Metrics))
	for i := range nodes {
		name := "node-" + strconv.Itoa(i)
		header.ID = fleet.RunID("f", 1, name)
		w, err := s.Create(b.Context(), header)
		if err != nil {
			b.Fatal(err)
		}
		all := make([]bench.Sample, 10)
		for k := range all {
			all[k] = bench.Sample{Trial: bench.Trial{Seq: k, Block: k}, Began: time.Now(), Outcome: bench.OK, Values: values}
		}
		err = errors.Join(w.(record.Batcher).AppendAll(b.Context(), all), w.Close())
		if err != nil {
			b.Fatal(err)
		}
		f.Nodes = append(f.Nodes, fleet.Node{Name: name})
		f.Outcomes = append(f.Outcomes, fleet.Outcome{Node: name, Pass: 1, State: fleet.Done, Run: header.ID, Rounds: 10})
	}
	for b.Loop() {
		if _, unread, err := JudgeFleet(b.Context(), s, &f); err != nil || unread != nil {
			b.Fatal(err, unread)
		}
	}
}

// Round trips over the hosts' network are asked for again only if a node that is done has none.
func TestLacksTrips(t *testing.T) {
	f := &fleet.Fleet{
		Nodes: []fleet.Node{{Name: "a"}, {Name: "b"}}, Networks: []string{pairs.Pod, pairs.Host},
		Outcomes: []fleet.Outcome{
			{Node: "a", Pass: 1, State: fleet.Done}, {Node: "b", Pass: 1, State: fleet.Gone}, {Node: "b", Pass: 2, State: fleet.Done},
		},
	}
	trip := func(network string, client int) pairs.Trip {
		return pairs.Trip{Network: network, Meeting: pairs.Meeting{Client: client, Server: 1 - client}}
	}
	for _, c := range []struct {
		name  string
		trips []pairs.Trip
		want  bool
	}{
		{"none", nil, true},
		{"of pods alone", []pairs.Trip{trip(pairs.Pod, 0)}, true},
		{"of a node that is gone", []pairs.Trip{trip(pairs.Host, 1)}, true},
		{"of no node at all", []pairs.Trip{trip(pairs.Host, -1), trip(pairs.Host, 2)}, true},
		{"of the node that is done", []pairs.Trip{trip(pairs.Host, 0)}, false},
	} {
		f.Trips = c.trips
		if got := lacksTrips(f); got != c.want {
			t.Errorf("with round trips %s: %v, want %v", c.name, got, c.want)
		}
	}
	f.Trips, f.Networks = nil, []string{pairs.Pod}
	if lacksTrips(f) {
		t.Error("round trips over the hosts' network are missing that were not asked for")
	}
}
