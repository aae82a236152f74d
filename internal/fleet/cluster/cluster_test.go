package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/fleet"
	"github.com/tare-bench/tare/internal/fleet/kube"
	"github.com/tare-bench/tare/internal/fleet/kube/kubetest"
	"github.com/tare-bench/tare/internal/fleet/pairs"
	"github.com/tare-bench/tare/internal/fleet/podlog"
)

// quick is a pace for tests. What it waits for has happened long before, except where a test is about the wait.
var quick = pace{
	tick: 5 * time.Millisecond, stuck: 300 * time.Millisecond, retry: 20 * time.Millisecond, lost: 500 * time.Millisecond,
	gone: 500 * time.Millisecond, sweep: 20 * time.Millisecond, jobs: 100 * time.Millisecond, late: time.Minute,
}

var quickWaste = waste{10 * time.Millisecond, 300 * time.Millisecond, 20 * time.Second}

const rounds = 3

func plan(nodes ...string) *Plan {
	p := &Plan{Pod: Pod{Args: []string{"agent", "pod"}, Memory: 64 << 20, Disk: 1 << 30}}
	p.Fleet = fleet.Fleet{
		Format: fleet.Format, ID: "20261126-2250-abc", Tool: "1", Began: time.Now().UTC().Truncate(time.Second),
		Namespaces: []string{"default"}, Image: "reg/tare@sha256:1", Experiment: "cpu", Source: "workload: cpu\n",
		Seed: 7, Rounds: rounds, Confirm: 2,
		Round: 10 * time.Millisecond, Networks: []string{"pod"},
	}
	for _, n := range nodes {
		p.Fleet.Nodes = append(p.Fleet.Nodes, fleet.Node{Name: n, Arch: "amd64", CPUs: 4})
	}
	return p
}

// play is a pod that does what it should. between is called before each round, from 0, and may end it; nil = nothing.
func play(p *kubetest.Process, between func(round int) *kubetest.Ending) kubetest.Ending {
	p.Running()
	w := podlog.NewWriter(p)
	_ = w.Hello(podlog.Hello{Wall: p.Now(), Node: p.Env(fleet.EnvNode), Tool: "1"})
	n := rounds
	if p.Env(fleet.EnvPass) == "2" {
		n = 2
	}
	for {
		if text, ok := p.File(fleet.StartDir + "/" + fleet.StartFile); ok {
			var s fleet.Start
			if err := json.Unmarshal(text, &s); err != nil || len(s.Peers) == 0 {
				return kubetest.Ending{Code: 3, Reason: "BadStart"}
			}
			break
		}
		select {
		case <-p.Context().Done():
			return kubetest.Ending{Code: 143}
		case <-time.After(5 * time.Millisecond):
		}
	}
	_, _ = fmt.Fprintf(w, "header %s\n", p.Env(fleet.EnvNode))
	for round := range n {
		if between != nil {
			if end := between(round); end != nil {
				return *end
			}
		}
		_, _ = fmt.Fprintf(w, "round %d\n", round)
		_ = w.Flush()
	}
	d, _ := w.End(podlog.Done, "")
	return kubetest.Ending{Message: string(d.Message())}
}

func good(p *kubetest.Process) kubetest.Ending { return play(p, nil) }

// A store keeps what is gathered, as package app does with the real store.
type store struct {
	mu       sync.Mutex
	records  map[string]string // by node/pass
	outcomes map[string][]fleet.Outcome
	troubles []string
}

func newStore() *store {
	return &store{records: map[string]string{}, outcomes: map[string][]fleet.Outcome{}}
}

func (s *store) hooks() Hooks {
	return Hooks{
		Sink: func(_ context.Context, p Part) (Stored, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			key := fmt.Sprintf("%s/%d", p.Node, p.Pass)
			if !strings.HasPrefix(string(p.Records), s.records[key]) {
				return Stored{}, fmt.Errorf("%s: %q does not begin with %q", key, p.Records, s.records[key])
			}
			s.records[key] = string(p.Records)
			return Stored{Run: "run-" + p.Node, Rounds: strings.Count(string(p.Records), "round ")}, nil
		},
		Outcome: func(o fleet.Outcome) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.outcomes[o.Node] = append(s.outcomes[o.Node], o)
		},
		Trouble: func(err error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.troubles = append(s.troubles, err.Error())
		},
	}
}

func want(node string, n int) string {
	lines := []string{"header " + node + "\n"}
	for i := range n {
		lines = append(lines, fmt.Sprintf("round %d\n", i))
	}
	return strings.Join(lines, "")
}

// run starts a pass of a fleet and gathers it.
func run(t *testing.T, c *kube.Client, p *Plan, h Hooks) error {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	if err := start(ctx, c, p, 1, nil, h, quick); err != nil {
		return err
	}
	return gather(ctx, c, p, 1, h, quick)
}

func mustRun(t *testing.T, c *kube.Client, p *Plan, h Hooks) {
	t.Helper()
	if err := run(t, c, p, h); err != nil {
		t.Fatal(err)
	}
}

// check compares the outcome of a node: its state, rounds, and a part of the reason.
func check(t *testing.T, p *Plan, node string, state fleet.State, n int, reason string) {
	t.Helper()
	o := p.Fleet.OutcomeOf(node, 1)
	if o == nil {
		t.Errorf("%s has no outcome", node)
		return
	}
	if o.State != state || o.Rounds != n || !strings.Contains(o.Reason, reason) || reason == "" && o.Reason != "" {
		t.Errorf("%s is %s with %d rounds (%q), want %s with %d (%q)", node, o.State, o.Rounds, o.Reason, state, n, reason)
	}
}

// mustClean removes the fleet and checks that nothing of it is left.
func mustClean(t *testing.T, s *kubetest.Server, p *Plan) {
	t.Helper()
	_, foreign, err := clean(t.Context(), s.Client(), p, Hooks{}, quickWaste)
	if err != nil || foreign != 0 {
		t.Errorf("clean: %d foreign, %v", foreign, err)
	}
	for _, r := range []string{"configmaps", "secrets", "jobs", "pods"} {
		if n := s.Objects(r); n != 0 {
			t.Errorf("%d %s are left", n, r)
		}
	}
}

func TestFleet(t *testing.T) {
	s := kubetest.Start(t, kubetest.Options{Run: good}, "a", "b", "c")
	c, p, kept := s.Client(), plan("a", "b", "c"), newStore()
	mustRun(t, c, p, kept.hooks())
	for _, n := range []string{"a", "b", "c"} {
		check(t, p, n, fleet.Done, rounds, "")
		if got := kept.records[n+"/1"]; got != want(n, rounds) {
			t.Errorf("%s: %q", n, got)
		}
		o := p.Fleet.OutcomeOf(n, 1)
		if o.Address == "" || o.ImageID == "" || o.Run == "" || len(o.Admitted) != 0 {
			t.Errorf("%s: %+v", n, o)
		}
	}
	if len(p.Fleet.Starts) != 1 {
		t.Errorf("starts: %v", p.Fleet.Starts)
	}

	// The second pass measures two of them, and another client gathers it.
	if err := start(t.Context(), c, p, 2, []int{2, 0}, kept.hooks(), quick); err != nil {
		t.Fatal(err)
	}
	other, err := Find(t.Context(), s.Client(), "default", p.Fleet.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := gather(t.Context(), c, other, 2, kept.hooks(), quick); err != nil {
		t.Fatal(err)
	}
	last := other.Fleet.OutcomeOf("c", 2)
	if kept.records["a/2"] != want("a", 2) || kept.records["b/2"] != "" || last == nil || last.State != fleet.Done {
		t.Errorf("second pass: %q", kept.records)
	}
	all, err := List(t.Context(), c, "default")
	if err != nil || len(all) != 1 || !slices.Equal(all[0].Passes[0], []int{0, 1, 2}) ||
		!slices.Equal(all[0].Passes[1], []int{0, 2}) ||
		all[0].Active != 0 || !all[0].Over(time.Now().Add(time.Hour)) ||
		all[0].Plan.Fleet.Source != p.Fleet.Source {
		t.Errorf("list: %+v, %v", all, err)
	}
	mustClean(t, s, p)
	if _, err := Find(t.Context(), c, "default", p.Fleet.ID); err == nil {
		t.Error("it is still found")
	}
}

// TestHostNetwork has a second pod on each node. That of c fails, which costs its round trips and nothing else.
func TestHostNetwork(t *testing.T) {
	var mu sync.Mutex
	peers := map[string]fleet.Peer{} // as pods are told
	s := kubetest.Start(t, kubetest.Options{Run: func(p *kubetest.Process) kubetest.Ending {
		if p.Env(fleet.EnvNetwork) != pairs.Host {
			return play(p, nil)
		}
		if p.Node == "c" {
			p.Waiting("ImagePullBackOff", "unauthorized")
			<-p.Context().Done()
			return kubetest.Ending{Code: 143}
		}
		return playTrips(p, func(start fleet.Start) {
			mu.Lock()
			defer mu.Unlock()
			for _, peer := range start.Peers {
				peers[peer.Node] = peer
			}
		})
	}}, "a", "b", "c")
	p, kept := plan("a", "b", "c"), newStore()
	p.Fleet.Networks = []string{pairs.Pod, pairs.Host}
	trips := map[string]int{}
	h := kept.hooks()
	sink := h.Sink
	h.Sink = func(ctx context.Context, part Part) (Stored, error) {
		if part.Network == pairs.Pod {
			return sink(ctx, part)
		}
		trips[part.Node] += len(part.Trips)
		return Stored{}, nil
	}
	mustRun(t, s.Client(), p, h)
	for _, n := range []string{"a", "b", "c"} {
		check(t, p, n, fleet.Done, rounds, "")
		if got := kept.records[n+"/1"]; got != want(n, rounds) {
			t.Errorf("%s: %q", n, got)
		}
		if peer := peers[n]; peer.Address == "" || (peer.Host != "") != (n != "c") || peer.Host == peer.Address {
			t.Errorf("%s is told as %+v", n, peer)
		}
	}
	if len(trips) != 2 || trips["a"] != 1 || trips["b"] != 1 {
		t.Errorf("round trips were read of %v, want one of a and one of b", trips)
	}
	if !has(kept.troubles, "node c, its pod in the hosts' network: ImagePullBackOff: unauthorized") {
		t.Errorf("troubles: %q", kept.troubles)
	}
	found, err := find(t.Context(), s.Client(), p)
	if err != nil || !slices.Equal(found.Passes[0], []int{0, 1, 2}) || found.Active != 1 {
		t.Errorf("found %+v, %v; want three nodes, and the Job of the pod that waits", found, err)
	}
	mustClean(t, s, p)
}

// playTrips is a pod that measures a round trip, once it is told when rounds begin.
func playTrips(p *kubetest.Process, told func(fleet.Start)) kubetest.Ending {
	p.Running()
	w := podlog.NewWriter(p)
	_ = w.Hello(podlog.Hello{Wall: p.Now(), Node: p.Env(fleet.EnvNode), Tool: "1"})
	var start fleet.Start
	for {
		if text, ok := p.File(fleet.StartDir + "/" + fleet.StartFile); ok && json.Unmarshal(text, &start) == nil {
			break
		}
		select {
		case <-p.Context().Done():
			return kubetest.Ending{Code: 143}
		case <-time.After(5 * time.Millisecond):
		}
	}
	told(start)
	_ = w.Trips([]pairs.Trip{{Meeting: pairs.Meeting{Server: 1}, Network: pairs.Host, Seconds: 1}})
	d, _ := w.End(podlog.Done, "")
	return kubetest.Ending{Message: string(d.Message())}
}

// TestDrain evicts the pod of one node after its second round. It has 30 seconds for its log to be read.
func TestDrain(t *testing.T) {
	var s *kubetest.Server
	var evicted atomic.Bool
	var read sync.Once
	asked := make(chan struct{})
	s = kubetest.Start(t, kubetest.Options{
		Run: func(p *kubetest.Process) kubetest.Ending {
			return play(p, func(round int) *kubetest.Ending {
				if p.Node != "b" || round != 2 {
					return nil
				}
				if evicted.CompareAndSwap(false, true) {
					s.Evict("b")
				}
				<-p.Context().Done()
				select {
				case <-asked:
					time.Sleep(300 * time.Millisecond) // until the log has been read
				case <-time.After(30 * time.Second):
				}
				return &kubetest.Ending{Code: 143}
			})
		},
		Fault: func(r *http.Request) *kubetest.Fault {
			if evicted.Load() && strings.HasSuffix(r.URL.Path, "/log") && strings.Contains(r.URL.Path, "-1-1-") {
				read.Do(func() { close(asked) })
			}
			return nil
		},
	}, "a", "b", "c")
	slow := quick
	slow.sweep = time.Hour // only the deletion makes it read
	p, kept := plan("a", "b", "c"), newStore()
	if err := start(t.Context(), s.Client(), p, 1, nil, kept.hooks(), slow); err != nil {
		t.Fatal(err)
	}
	if err := gather(t.Context(), s.Client(), p, 1, kept.hooks(), slow); err != nil {
		t.Fatal(err)
	}
	check(t, p, "b", fleet.Gone, 2, "gone since round 3: EvictionByEvictionAPI: Eviction API: evicting")
	check(t, p, "a", fleet.Done, rounds, "")
	check(t, p, "c", fleet.Done, rounds, "")
	mustClean(t, s, p)
}

// TestDeadNode has a node that dies in its third round: its kubelet gives no log, and its pod is to go and does not.
func TestDeadNode(t *testing.T) {
	var s *kubetest.Server
	var dead atomic.Bool
	over := make(chan struct{})
	kept := newStore()
	s = kubetest.Start(t, kubetest.Options{
		Grace: time.Hour,
		Fault: func(r *http.Request) *kubetest.Fault {
			if dead.Load() && strings.HasSuffix(r.URL.Path, "/log") && strings.Contains(r.URL.Path, "-1-1-") {
				return &kubetest.Fault{Code: http.StatusBadRequest, Message: "dial tcp 10.0.0.2:10250: no route to host"}
			}
			return nil
		},
		Run: func(p *kubetest.Process) kubetest.Ending {
			return play(p, func(round int) *kubetest.Ending {
				if p.Node != "b" || round != 2 {
					return nil
				}
				for kept.rounds("b/1") < 2 { // as it would have been read in minutes
					time.Sleep(5 * time.Millisecond)
				}
				dead.Store(true)
				s.Evict("b")
				<-over
				return &kubetest.Ending{}
			})
		},
	}, "a", "b", "c")
	t.Cleanup(func() { close(over) })
	p := plan("a", "b", "c")
	mustRun(t, s.Client(), p, kept.hooks())
	check(t, p, "b", fleet.Gone, 2, "gone since round 3: EvictionByEvictionAPI")
	check(t, p, "a", fleet.Done, rounds, "")
	check(t, p, "c", fleet.Done, rounds, "")
}

func (s *store) rounds(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Count(s.records[key], "round ")
}

// TestImagePull has one node that cannot pull the image: it is named before the others have ended.
func TestImagePull(t *testing.T) {
	named := make(chan struct{})
	s := kubetest.Start(t, kubetest.Options{Run: func(p *kubetest.Process) kubetest.Ending {
		if p.Node == "b" {
			p.Waiting("ImagePullBackOff", "Back-off pulling image \"reg/tare\": unauthorized")
			<-p.Context().Done()
			return kubetest.Ending{Code: 143}
		}
		return play(p, func(int) *kubetest.Ending { <-named; return nil })
	}}, "a", "b", "c")
	p, kept := plan("a", "b", "c"), newStore()
	h := kept.hooks()
	var once sync.Once
	h.Outcome = func(o fleet.Outcome) {
		if o.Node == "b" && o.State == fleet.Waiting && strings.Contains(o.Reason, "ImagePullBackOff: Back-off") {
			once.Do(func() { close(named) })
		}
	}
	mustRun(t, s.Client(), p, h)
	check(t, p, "b", fleet.Failed, 0, "unauthorized")
	check(t, p, "a", fleet.Done, rounds, "")
	mustClean(t, s, p)
}

// TestNoImage has no node that can pull: nothing is begun, and the error has the registry's words.
func TestNoImage(t *testing.T) {
	s := kubetest.Start(t, kubetest.Options{Run: func(p *kubetest.Process) kubetest.Ending {
		p.Waiting("ErrImagePull", "reg/tare: not found")
		<-p.Context().Done()
		return kubetest.Ending{Code: 143}
	}}, "a", "b", "c")
	p := plan("a", "b", "c")
	err := start(t.Context(), s.Client(), p, 1, nil, Hooks{}, quick)
	const words = "no pod of 3 runs: ErrImagePull: reg/tare: not found"
	var not *NotStarted
	if !errors.As(err, &not) || !strings.Contains(err.Error(), words) || len(p.Fleet.Starts) != 0 {
		t.Errorf("start: %v", err)
	}
	mustClean(t, s, p)
}

// TestUnschedulable has a node that is cordoned between preflight and start.
func TestUnschedulable(t *testing.T) {
	s := kubetest.Start(t, kubetest.Options{Run: good}, "a", "b", "c")
	n := kubetest.NewNode("b")
	n.Spec.Unschedulable = true
	s.Put(n)
	p := plan("a", "b", "c")
	mustRun(t, s.Client(), p, newStore().hooks())
	check(t, p, "b", fleet.Failed, 0, "Unschedulable: 0 nodes are available")
	check(t, p, "a", fleet.Done, rounds, "")
}

// TestEndings has pods that end by themselves without all rounds.
func TestEndings(t *testing.T) {
	s := kubetest.Start(t, kubetest.Options{Run: func(p *kubetest.Process) kubetest.Ending {
		return play(p, func(round int) *kubetest.Ending {
			switch {
			case p.Node == "oom" && round == 1:
				return &kubetest.Ending{Code: 137, Reason: "OOMKilled"}
			case p.Node == "panic" && round == 2:
				_, _ = fmt.Fprint(p, "panic: \x1b[31mred\n")
				return &kubetest.Ending{Code: 2}
			case p.Node == "says":
				d := podlog.Digest{Outcome: podlog.Failed, Reason: "no disk", Lines: 1, SHA256: "0"}
				return &kubetest.Ending{Code: 1, Message: string(d.Message())}
			}
			return nil
		})
	}}, "fine", "oom", "panic", "says")
	p := plan("fine", "oom", "panic", "says")
	mustRun(t, s.Client(), p, newStore().hooks())
	check(t, p, "fine", fleet.Done, rounds, "")
	check(t, p, "oom", fleet.Failed, 1, "OOMKilled")
	check(t, p, "panic", fleet.Failed, 2, "exit code 2: panic: \x1b[31mred")
	check(t, p, "says", fleet.Failed, 0, "no disk")
}

// TestServerRestarts lets the API server break all connections and forget its past, twice in a run.
func TestServerRestarts(t *testing.T) {
	var s *kubetest.Server
	var restart sync.Mutex
	done := map[int]bool{}
	s = kubetest.Start(t, kubetest.Options{Run: func(p *kubetest.Process) kubetest.Ending {
		return play(p, func(round int) *kubetest.Ending {
			restart.Lock()
			defer restart.Unlock()
			if round > 0 && !done[round] {
				done[round] = true
				up := s.Down()
				time.Sleep(50 * time.Millisecond)
				s.Forget()
				up()
			}
			return nil
		})
	}}, "a", "b", "c")
	p, kept := plan("a", "b", "c"), newStore()
	mustRun(t, s.Client(), p, kept.hooks())
	for _, n := range []string{"a", "b", "c"} {
		check(t, p, n, fleet.Done, rounds, "")
		if got := kept.records[n+"/1"]; got != want(n, rounds) {
			t.Errorf("%s: %q", n, got)
		}
	}
	mustClean(t, s, p)
}

// TestQuota has room for two pods of three, which nobody saw before.
func TestQuota(t *testing.T) {
	s := kubetest.Start(t, kubetest.Options{Run: good}, "a", "b", "c")
	q := &kube.ResourceQuota{Meta: kube.Meta{Name: "few", Namespace: "default"}}
	q.Spec.Hard = kube.Resources{"pods": "2"}
	s.Put(q)
	p := plan("a", "b", "c")
	h := newStore().hooks()
	if err := start(t.Context(), s.Client(), p, 1, nil, h, quick); err != nil {
		t.Fatal(err)
	}
	waiting := slices.IndexFunc(p.Fleet.Outcomes, func(o fleet.Outcome) bool {
		return o.State == fleet.Waiting && strings.Contains(o.Reason, "FailedCreate: exceeded quota: few")
	})
	if waiting < 0 {
		t.Errorf("outcomes: %+v", p.Fleet.Outcomes)
	}
	if err := gather(t.Context(), s.Client(), p, 1, h, quick); err != nil {
		t.Fatal(err)
	}
	done := 0
	for _, o := range p.Fleet.Outcomes {
		done += btoi(o.State == fleet.Done)
	}
	if done != 2 {
		t.Errorf("%d are done: %+v", done, p.Fleet.Outcomes)
	}
}

// TestSidecar has a webhook that puts a container and a limit into pods: each node says so.
func TestSidecar(t *testing.T) {
	s := kubetest.Start(t, kubetest.Options{
		Run: good, Admit: addSidecar("Job"),
	}, "a", "b", "c")
	p := plan("a", "b", "c")
	mustRun(t, s.Client(), p, newStore().hooks())
	got := p.Fleet.OutcomeOf("a", 1)
	const both = `a container "mesh" beside it (mesh:1); a limit of cpu: 1`
	if text := strings.Join(got.Admitted, "; "); text != both || got.State != fleet.Done {
		t.Errorf("admitted: %q, %s", text, got.State)
	}
}

// addSidecar is a webhook for objects of a kind.
func addSidecar(kind string) func(string, map[string]any) error {
	return func(got string, o map[string]any) error {
		if got != kind {
			return nil
		}
		spec := o["spec"].(map[string]any)
		if kind == "Job" {
			spec = spec["template"].(map[string]any)["spec"].(map[string]any)
		}
		all := spec["containers"].([]any)
		own := all[0].(map[string]any)
		own["resources"].(map[string]any)["limits"].(map[string]any)["cpu"] = "1"
		spec["containers"] = append(all, map[string]any{"name": "mesh", "image": "mesh:1"})
		return nil
	}
}

// TestRotated loses what a pod had written before its log was rotated: if it was read before, nothing is lost; if not,
// there is no number.
func TestRotated(t *testing.T) {
	for _, read := range []bool{true, false} {
		var s *kubetest.Server
		kept := newStore()
		s = kubetest.Start(t, kubetest.Options{Run: func(p *kubetest.Process) kubetest.Ending {
			return play(p, func(round int) *kubetest.Ending {
				if p.Node != "b" || round != 2 {
					return nil
				}
				for read && kept.rounds("b/1") < 2 {
					time.Sleep(5 * time.Millisecond)
				}
				s.SetLog("b", "")
				return nil
			})
		}}, "a", "b", "c")
		at := quick
		if !read {
			at.sweep = time.Hour
		}
		p := plan("a", "b", "c")
		if err := start(t.Context(), s.Client(), p, 1, nil, kept.hooks(), at); err != nil {
			t.Fatal(err)
		}
		if err := gather(t.Context(), s.Client(), p, 1, kept.hooks(), at); err != nil {
			t.Fatal(err)
		}
		if read {
			check(t, p, "b", fleet.Done, rounds, "")
			if kept.records["b/1"] != want("b", rounds) {
				t.Errorf("records: %q", kept.records["b/1"])
			}
		} else {
			check(t, p, "b", fleet.Failed, 0, "the log has a hole")
			if kept.records["b/1"] != "" {
				t.Errorf("records: %q", kept.records["b/1"])
			}
		}
		check(t, p, "a", fleet.Done, rounds, "")
	}
}

// TestKilledClient stops the client at the n-th request, and lets another go on.
func TestKilledClient(t *testing.T) {
	for n := 1; n <= 39; n += 2 { // 20 instants
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int64
			ctx, kill := context.WithCancel(t.Context())
			defer kill()
			s := kubetest.Start(t, kubetest.Options{
				Run: good,
				Fault: func(*http.Request) *kubetest.Fault {
					if requests.Add(1) == int64(n) {
						kill()
						return &kubetest.Fault{Late: n%2 == 0}
					}
					return nil
				},
			}, "a", "b", "c")
			kept := newStore()
			first := plan("a", "b", "c")
			if err := start(ctx, s.Client(), first, 1, nil, kept.hooks(), quick); err == nil {
				_ = gather(ctx, s.Client(), first, 1, kept.hooks(), quick)
			}
			c := s.Client()
			p, err := Find(t.Context(), c, "default", first.Fleet.ID)
			if err != nil && s.Objects("configmaps") > 0 {
				t.Fatal(err)
			} else if err != nil {
				p = plan("a", "b", "c") // it was killed before it had made anything
			}
			again := newStore()
			mustRun(t, c, p, again.hooks())
			for _, node := range []string{"a", "b", "c"} {
				check(t, p, node, fleet.Done, rounds, "")
				if got := again.records[node+"/1"]; got != want(node, rounds) || !strings.HasPrefix(got, kept.records[node+"/1"]) {
					t.Errorf("%s: %q, and before %q", node, got, kept.records[node+"/1"])
				}
			}
			mustClean(t, s, p)
		})
	}
}

// TestLate has a client that looks when all should be over, as after its machine has slept: what seems to run is read
// before it is given up.
func TestLate(t *testing.T) {
	var nodes []string
	for i := range 3 * atOnce {
		nodes = append(nodes, fmt.Sprintf("n%02d", i))
	}
	var written sync.WaitGroup
	written.Add(len(nodes))
	s := kubetest.Start(t, kubetest.Options{Run: func(p *kubetest.Process) kubetest.Ending {
		play(p, nil)
		written.Done()
		<-p.Context().Done() // nobody tells that it has ended
		return kubetest.Ending{Code: 143}
	}}, nodes...)
	p, kept := plan(nodes...), newStore()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	if err := start(ctx, s.Client(), p, 1, nil, kept.hooks(), quick); err != nil {
		t.Fatal(err)
	}
	written.Wait()
	late := quick
	late.sweep, late.late = time.Hour, -time.Hour
	if err := gather(ctx, s.Client(), p, 1, kept.hooks(), late); err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		check(t, p, n, fleet.Done, rounds, "")
	}
	mustClean(t, s, p)
}

// TestTokens stops a client at each request while it makes what pods need in two namespaces: the pods of both are given
// the same token by the next client, as they could not know each other otherwise.
func TestTokens(t *testing.T) {
	spaces := []string{"tare-0", "tare-1"}
	prepare := func(s *kubetest.Server) (*Plan, error) {
		p := plan("a", "b")
		p.Fleet.Namespaces = spaces
		one, err := newSession(s.Client(), p, 1, []int{0, 1}, Hooks{}, quick)
		if err == nil {
			err = one.makeRoots(t.Context())
		}
		return p, err
	}
	for n := range int64(14) {
		var requests atomic.Int64
		s := kubetest.Start(t, kubetest.Options{Fault: func(*http.Request) *kubetest.Fault {
			if requests.Add(1) == n/2+1 {
				return &kubetest.Fault{Code: http.StatusConflict, Late: n%2 == 0}
			}
			return nil
		}})
		for _, space := range spaces {
			s.Put(&kube.Namespace{Meta: kube.Meta{Name: space}})
		}
		if _, err := prepare(s); err == nil {
			t.Errorf("request %d: the first client was not stopped", n/2)
		}
		for range 2 { // the last finds all of it
			p, err := prepare(s)
			if err != nil {
				t.Fatal(err)
			}
			var tokens []string
			for _, space := range spaces {
				secret := &kube.Secret{Meta: kube.Meta{Name: p.tokenName(), Namespace: space}}
				if err := s.Client().Get(t.Context(), secret); err != nil {
					t.Error(err)
				}
				tokens = append(tokens, string(secret.Data["token"]))
			}
			if len(tokens[0]) != 64 || tokens[0] != tokens[1] {
				t.Errorf("request %d: the tokens are %q", n/2, tokens)
			}
		}
		p, _ := prepare(s)
		mustClean(t, s, p)
	}
}

// TestTwoClients lets two clients start and gather the same fleet at once.
func TestTwoClients(t *testing.T) {
	s := kubetest.Start(t, kubetest.Options{Run: good}, "a", "b", "c")
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			p, kept := plan("a", "b", "c"), newStore()
			if err := run(t, s.Client(), p, kept.hooks()); err != nil {
				t.Error(err)
				return
			}
			for _, n := range []string{"a", "b", "c"} {
				check(t, p, n, fleet.Done, rounds, "")
			}
		})
	}
	both.Wait()
	if n := s.Objects("jobs"); n != 3 {
		t.Errorf("%d Jobs", n)
	}
	mustClean(t, s, plan("a", "b", "c"))
}

// TestForeign has objects of somebody else with our names and our label: they are not used, and stay.
func TestForeign(t *testing.T) {
	s := kubetest.Start(t, kubetest.Options{Run: func(p *kubetest.Process) kubetest.Ending {
		if p.Pod.Labels[labelPass] == "" || p.Env(fleet.EnvNode) == "" {
			<-p.Context().Done()
			return kubetest.Ending{}
		}
		return play(p, nil)
	}}, "a", "b", "c")
	c, p := s.Client(), plan("a", "b", "c")
	theirs := p.job(1, 1, pairs.Pod, 3, nil)
	theirs.Labels, theirs.Spec.Template.Labels = nil, nil
	fake := p.job(1, 2, pairs.Pod, 3, nil) // all labels, and another name
	fake.Name, fake.Spec.Template.Spec.Containers[0].Env = "another", nil
	for _, o := range []kube.Object{
		theirs, fake, &kube.ConfigMap{Meta: p.meta("mine", "default"), Data: map[string]string{"a": "b"}},
	} {
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	mustRun(t, c, p, newStore().hooks())
	check(t, p, "a", fleet.Done, rounds, "")
	check(t, p, "b", fleet.Failed, 0, "is not of this fleet")
	check(t, p, "c", fleet.Done, rounds, "")
	_, foreign, err := clean(t.Context(), c, p, Hooks{}, quickWaste)
	if err != nil || foreign != 3 { // a ConfigMap, a Job and its pod
		t.Errorf("%d foreign objects, %v", foreign, err)
	}
	if s.Objects("jobs") != 2 || s.Objects("configmaps") != 1 || s.Objects("pods") != 2 || s.Objects("secrets") != 0 {
		t.Errorf("left: %d Jobs, %d ConfigMaps, %d pods", s.Objects("jobs"), s.Objects("configmaps"), s.Objects("pods"))
	}
}

// TestForeignRoot has somebody else's root: nothing is begun, and it stays.
func TestForeignRoot(t *testing.T) {
	s := kubetest.Start(t, kubetest.Options{}, "a", "b", "c")
	p := plan("a", "b", "c")
	s.Put(&kube.ConfigMap{Meta: kube.Meta{Name: rootName(p.Fleet.ID), Namespace: "default"}})
	if err := run(t, s.Client(), p, Hooks{}); err == nil || !strings.Contains(err.Error(), "is not of this fleet") {
		t.Errorf("run: %v", err)
	}
	if _, err := Find(t.Context(), s.Client(), "default", p.Fleet.ID); err == nil {
		t.Error("it is found")
	}
	n, _, err := clean(t.Context(), s.Client(), p, Hooks{}, quickWaste)
	if n != 0 || err != nil || s.Objects("configmaps") != 1 {
		t.Errorf("clean: %d, %v", n, err)
	}
}

// TestSinkFails stops the gathering if the store takes no more: another can go on.
func TestSinkFails(t *testing.T) {
	s := kubetest.Start(t, kubetest.Options{Run: good}, "a", "b", "c")
	p := plan("a", "b", "c")
	full := Hooks{Sink: func(context.Context, Part) (Stored, error) { return Stored{}, fmt.Errorf("the disk is full") }}
	if err := run(t, s.Client(), p, full); err == nil || !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("run: %v", err)
	}
	if err := gather(t.Context(), s.Client(), p, 1, newStore().hooks(), quick); err != nil {
		t.Error(err)
	}
	check(t, p, "a", fleet.Done, rounds, "")
}

// TestBadRecords has a node whose records are of no use after its first rounds: it fails, its log is not read again,
// and what is stored of it stays, as it does of a node whose last reading gives nothing.
func TestBadRecords(t *testing.T) {
	kept := newStore()
	s := kubetest.Start(t, kubetest.Options{Run: func(p *kubetest.Process) kubetest.Ending {
		return play(p, func(round int) *kubetest.Ending {
			for round == 2 && kept.rounds(p.Node+"/1") < 2 && p.Context().Err() == nil {
				time.Sleep(5 * time.Millisecond)
			}
			return nil
		})
	}}, "a", "b", "c")
	p, h := plan("a", "b", "c"), kept.hooks()
	sink, refused := h.Sink, 0
	h.Sink = func(ctx context.Context, part Part) (Stored, error) {
		switch n := strings.Count(string(part.Records), "round "); {
		case part.Node == "b" && n > 2:
			refused++
			return Stored{}, fmt.Errorf("run b: %w", &BadRecords{errors.New("line 3 is odd")})
		case part.Node == "c" && n > 2:
			return Stored{}, nil
		}
		return sink(ctx, part)
	}
	mustRun(t, s.Client(), p, h)
	check(t, p, "a", fleet.Done, rounds, "")
	check(t, p, "b", fleet.Failed, 2, "its records are of no use: line 3 is odd")
	check(t, p, "c", fleet.Failed, 2, "only 2 of 3 rounds are whole")
	for _, n := range []string{"b", "c"} {
		if o := p.Fleet.OutcomeOf(n, 1); o.Run != "run-"+n {
			t.Errorf("%s has the run %q", n, o.Run)
		}
	}
	if refused != 1 {
		t.Errorf("the bad log was read %d times", refused)
	}
}

// TestOtherVersion has a node whose image has another version of tare: what it measures is not taken.
func TestOtherVersion(t *testing.T) {
	s := kubetest.Start(t, kubetest.Options{Run: func(p *kubetest.Process) kubetest.Ending {
		if p.Node == "b" { // the first line counts
			_ = podlog.NewWriter(p).Hello(podlog.Hello{Wall: p.Now(), Node: "b", Tool: "0.9\x1b[31m"})
		}
		return play(p, nil)
	}}, "a", "b", "c")
	p, kept := plan("a", "b", "c"), newStore()
	mustRun(t, s.Client(), p, kept.hooks())
	check(t, p, "b", fleet.Failed, 0, "its image has tare 0.9\x1b[31m, and the fleet was begun with 1")
	check(t, p, "a", fleet.Done, rounds, "")
	check(t, p, "c", fleet.Done, rounds, "")
	if kept.records["b/1"] != "" {
		t.Errorf("records of b: %q", kept.records["b/1"])
	}
	mustClean(t, s, p)
}

// TestNotStarted tells a cluster that refuses all Jobs from one that fails for a moment.
func TestNotStarted(t *testing.T) {
	var fault atomic.Pointer[kubetest.Fault]
	s := kubetest.Start(t, kubetest.Options{Run: good, Fault: func(r *http.Request) *kubetest.Fault {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/jobs") {
			return fault.Load()
		}
		return nil
	}}, "a", "b", "c")
	var not *NotStarted
	p := plan("a", "b", "c")
	for code, want := range map[int]bool{http.StatusForbidden: true, http.StatusConflict: false} {
		fault.Store(&kubetest.Fault{Code: code, Message: "no"})
		err := start(t.Context(), s.Client(), p, 1, nil, Hooks{}, quick)
		if err == nil || errors.As(err, &not) != want {
			t.Errorf("%d: %v", code, err)
		}
	}
	fault.Store(nil)
	mustClean(t, s, p)
}

// A Job that was refused, and is made when the fleet goes on, is read like any other.
func TestRefusedAndMade(t *testing.T) {
	var full, busy atomic.Bool
	s := kubetest.Start(t, kubetest.Options{Run: good, Fault: func(r *http.Request) *kubetest.Fault {
		switch {
		case full.Load() && r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/jobs"):
			if full.CompareAndSwap(true, false) {
				return &kubetest.Fault{Code: http.StatusForbidden, Message: "exceeded quota"}
			}
		case busy.Load() && strings.HasSuffix(r.URL.Path, "-start-1"): // the client ends here
			return &kubetest.Fault{Code: http.StatusConflict, Message: "not now"}
		}
		return nil
	}}, "a", "b", "c")
	p := plan("a", "b", "c")
	full.Store(true)
	c := s.Client()
	h := Hooks{Progress: func(phase Phase, done, _ int) {
		if phase == Creating && done == 3 {
			busy.Store(true)
		}
	}}
	if err := start(t.Context(), c, p, 1, nil, h, quick); err == nil {
		t.Fatal("the first client was not stopped")
	}
	refused := 0
	for _, o := range p.Fleet.Outcomes {
		refused += btoi(o.State == fleet.Failed)
	}
	if refused != 1 {
		t.Fatalf("%d Jobs were refused, want one: %+v", refused, p.Fleet.Outcomes)
	}
	busy.Store(false)
	mustRun(t, c, p, newStore().hooks())
	for _, n := range []string{"a", "b", "c"} {
		check(t, p, n, fleet.Done, rounds, "")
	}
}

// TestCalls counts requests: a node costs its Job and its log, as the preflight has said.
func TestCalls(t *testing.T) {
	var names []string
	for i := range 40 {
		names = append(names, fmt.Sprintf("n%02d", i))
	}
	s := kubetest.Start(t, kubetest.Options{Run: good}, names...)
	p := plan(names...)
	first, err := CheckFirst(t.Context(), s.Client(), Request{Plan: *p})
	if err != nil {
		t.Fatal(err)
	}
	before := len(s.Requests())
	at := quick
	at.stuck, at.jobs, at.sweep = time.Minute, time.Minute, time.Minute
	if err := start(t.Context(), s.Client(), p, 1, nil, Hooks{}, at); err != nil {
		t.Fatal(err)
	}
	if err := gather(t.Context(), s.Client(), p, 1, newStore().hooks(), at); err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		check(t, p, n, fleet.Done, rounds, "")
	}
	if n := len(s.Requests()) - before; n > first.Calls || n < 2*len(names) {
		t.Errorf("%d requests, and %d were expected", n, first.Calls)
	}
}
