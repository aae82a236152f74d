package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/fleet"
	"github.com/tare-bench/tare/internal/fleet/kube"
	"github.com/tare-bench/tare/internal/fleet/kube/kubetest"
	"github.com/tare-bench/tare/internal/fleet/podlog"
	"github.com/tare-bench/tare/internal/schedule"
	"github.com/tare-bench/tare/internal/store/record"
)

// A rate is what a node of a played fleet computes in a round of a pass.
type rate func(node string, pass, round int) float64

// steady is the rate of nodes that are alike.
func steady(node string, pass, round int) float64 { return 1000 * (1 + 0.03*noise(node, pass, round)) }

// noise is normal, and the same for the same arguments.
func noise(of ...any) float64 {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, of...) // it takes everything
	return rand.New(rand.NewPCG(h.Sum64(), 1)).NormFloat64()
}

// writers are the logs that are written at once: thousands would keep everything else in this process waiting.
var writers = make(chan struct{}, 2)

// playRounds plays a pod that measures nothing: when it knows when the rounds begin, all of them are in its log.
func playRounds(p *kubetest.Process, of rate) kubetest.Ending {
	p.Running()
	var start fleet.Start
	for {
		text, given := p.File(fleet.StartDir + "/" + fleet.StartFile)
		if given && json.Unmarshal(text, &start) == nil {
			break
		}
		select {
		case <-p.Context().Done():
			return kubetest.Ending{Code: 143}
		case <-time.After(200 * time.Millisecond):
		}
	}
	order, _ := p.File(fleet.OrderDir + "/" + fleet.OrderFile)
	source, _ := p.File(fleet.OrderDir + "/" + fleet.SourceFile)
	writers <- struct{}{}
	digest, err := playedPod{p.Node, p.Now(), order, source, start}.write(p.Context(), p, of)
	<-writers
	if err != nil {
		return kubetest.Ending{Code: 1, Reason: err.Error()}
	}
	return kubetest.Ending{Message: string(digest.Message())}
}

// A playedPod is what a pod knows that measures nothing.
type playedPod struct {
	node          string
	now           time.Time // by the node's clock
	order, source []byte    // files
	start         fleet.Start
}

// write writes the log of a pod.
func (p playedPod) write(ctx context.Context, to io.Writer, of rate) (podlog.Digest, error) {
	var order fleet.Order
	var plan bench.Plan
	if err := errors.Join(json.Unmarshal(p.order, &order), json.Unmarshal(p.source, &plan)); err != nil {
		return podlog.Digest{}, err
	}
	start := p.start
	rounds := order.Rounds
	if start.Pass == 2 {
		rounds = order.Confirm
	}
	plan.MinBlocks, plan.MaxBlocks = rounds, rounds
	plan.Labels = append(plan.Labels, bench.Label{Key: fleet.LabelFleet, Value: order.Fleet},
		bench.Label{Key: fleet.LabelNode, Value: p.node}, bench.Label{Key: fleet.LabelPass, Value: strconv.Itoa(start.Pass)})
	header := bench.Header{
		ID: fleet.RunID(order.Fleet, start.Pass, p.node), Tool: order.Tool, Began: start.Began, Plan: plan,
		Schedule: schedule.Blocks(plan), Metrics: playedMetrics(), Engines: []bench.EngineInfo{{Name: "native"}},
		Host: bench.HostFacts{Hostname: p.node, CPUs: 4},
	}
	w := podlog.NewWriter(to)
	err := w.Hello(podlog.Hello{Wall: p.now, Node: p.node, Pass: start.Pass, Arch: "amd64", Tool: order.Tool})
	records, createErr := record.NewWriter(w, header)
	if err = errors.Join(err, createErr); err != nil {
		return podlog.Digest{}, err
	}
	seq := 0
	for i, block := range header.Schedule {
		round := i - plan.Warmup
		for _, cell := range block {
			values := make([]float64, len(header.Metrics))
			for m := range values {
				values[m] = 0.01 * float64(m)
			}
			values[0] = of(p.node, start.Pass, round)
			err = errors.Join(err, records.Append(ctx, bench.Sample{
				Trial: bench.Trial{Seq: seq, Block: round, Cell: cell}, Outcome: bench.OK, Values: values,
				Began: start.Began.Add(time.Duration(round)*start.Round + time.Millisecond), Elapsed: time.Second,
				Counted: time.Second,
			}))
			seq++
		}
		err = errors.Join(err, w.Flush())
	}
	err = errors.Join(err, records.Finish(ctx, bench.End{Time: start.Began, Reason: bench.StopBlocks}))
	digest, endErr := w.End(podlog.Done, "")
	return digest, errors.Join(err, endErr)
}

// playedMetrics are as many as a real run has, so that logs have its size.
func playedMetrics() []bench.Metric {
	all := []bench.Metric{{
		Name: "computed", Title: "computed", Unit: "1/s", Better: bench.Higher, Role: bench.Primary, Scale: bench.Ratio,
		Doc: "What the test says.",
	}}
	for i := range 80 {
		name := fmt.Sprint("counter", i)
		all = append(all, bench.Metric{
			Name: name, Title: name, Unit: "s", Better: bench.Lower, Role: bench.Counter, Scale: bench.Difference,
			Doc: "What the kernel counts from the beginning of the trial to its end.",
		})
	}
	return all
}

// startPlayed is a cluster whose pods measure nothing.
func startPlayed(t *testing.T, of rate, fault func(*http.Request) *kubetest.Fault, nodes ...string) (
	*kubetest.Server, *testEnv,
) {
	t.Helper()
	s := kubetest.Start(t, kubetest.Options{
		Run: func(p *kubetest.Process) kubetest.Ending { return playRounds(p, of) }, Fault: fault, Grace: testTimeout,
	}, nodes...)
	p := newTestEnv(t)
	p.env = append(p.env, "KUBECONFIG="+s.Kubeconfig())
	return s, p
}

// makes reports whether a request makes an object.
func makes(r *http.Request) bool {
	return r.Method == http.MethodPost && !r.URL.Query().Has("dryRun") &&
		!strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews")
}

// A client that is killed while it makes, starts, reads or removes a fleet has lost nothing: the next one goes on, and
// nothing is left in the cluster.
func TestFleetKilled(t *testing.T) {
	t.Parallel() // it waits more than it measures
	if testing.Short() {
		return // package cluster has the same with a client that only gives up
	}
	const instants = 20
	for n := range instants {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			t.Parallel()
			killClient(t, 1+n*27/instants, n%2 == 0)
		})
	}
}

// killClient kills a client at one of the requests from the first object on, before the server does what is asked or
// after that.
func killClient(t *testing.T, at int, after bool) {
	reached, dead, over := make(chan struct{}), make(chan struct{}), make(chan struct{})
	buried := sync.OnceFunc(func() { close(dead) })
	var began atomic.Bool
	var requests atomic.Int64
	s, p := startPlayed(t, steady, func(r *http.Request) *kubetest.Fault {
		if makes(r) {
			began.Store(true)
		}
		if !began.Load() || requests.Add(1) != int64(at) {
			return nil
		}
		close(reached)
		<-dead
		return &kubetest.Fault{Late: after, Over: func() { close(over) }}
	}, "web-1", "web-2", "web-3")
	t.Cleanup(buried)
	client := p.begin(t, fleetArgs("run", "--round", "1s", "--lead", "1s", "--confirm", "0")...)
	select {
	case <-reached:
		client.signal(t, syscall.SIGKILL)
	case <-time.After(testTimeout):
		t.Errorf("there was no request number %d", at)
	}
	buried()
	if got := client.end(t); got.code >= 0 {
		t.Fatalf("exit code %d\n%s", got.code, got.stderr)
	}
	<-over // what the server makes later, no client can find
	result := p.must(t, "fleet", "gather", "--qps", "1000")
	wantNoObjects(t, s)
	shown := p.shownFleet(t)
	if len(shown.Nodes) != 3 || len(p.runs(t)) != 3 {
		t.Errorf("%d nodes and %d runs are there", len(shown.Nodes), len(p.runs(t)))
	}
	for _, n := range shown.Nodes {
		if n.State != string(fleet.Done) || n.Rounds != 3 {
			t.Errorf("node %s: %+v\n%s", n.Name, n, result.stderr)
		}
	}
}

// A fleet of hundreds of nodes, of five thousand in the long form: the slow ones are found, the client needs little
// memory, and no more requests than it has said and may make.
func TestFleetOfThousands(t *testing.T) {
	t.Parallel() // no time is measured
	count := 300
	if !testing.Short() {
		count = 5000
	}
	f := newPlayedFleet("node", count, 0)
	s, p := startPlayed(t, f.rate, nil, f.names...)
	for _, space := range []string{"default-0", "default-1"} {
		s.Put(&kube.Namespace{Meta: kube.Meta{Name: space}})
	}
	var before int
	requests := func() (all []time.Time) {
		for _, r := range s.Requests()[before:] {
			all = append(all, r.Time)
		}
		before += len(all)
		return all
	}
	f.run(t, p, requests, 20*testTimeout)
	wantNoObjects(t, s)
}

// A playedFleet is many nodes of which ten are slow.
type playedFleet struct {
	names   []string
	planted map[string]bool
	seed    int
}

func newPlayedFleet(prefix string, count, seed int) *playedFleet {
	const slow = 10
	f := &playedFleet{planted: map[string]bool{}, seed: seed}
	for i := range count {
		f.names = append(f.names, fmt.Sprintf("%s-%04d", prefix, i))
	}
	for i := range slow {
		f.planted[f.names[(7+seed+i*count/slow)%count]] = true
	}
	return f
}

// rate is what a node computes. Slow ones are slower by a fifth, nodes differ by a hundredth, and rounds by a tenth.
func (f *playedFleet) rate(node string, pass, round int) float64 {
	noise := func(of ...any) float64 { return noise(append(of, f.seed)...) }
	v := 1000 * (1 + 0.03*noise(node, pass, round)) * (1 + 0.01*noise(node)) * (1 + 0.1*noise(pass, round))
	if f.planted[node] {
		v *= 0.8
	}
	return v
}

// run measures the fleet and wants that what was planted is found. requests are the times of those that the server was
// asked since the last call.
func (f *playedFleet) run(t *testing.T, p *testEnv, requests func() []time.Time, limit time.Duration, more ...string) {
	t.Helper()
	const qps = 200
	p.program = releaseBinary(t)
	args := func(command string, last ...string) []string {
		all := append([]string{
			"fleet", command, "cpu", "--rounds", "10", "--round", "1s", "--confirm", "5", "--lead", "1s", "--qps",
			strconv.Itoa(qps),
		}, more...)
		return append(all, last...)
	}
	var plan struct{ Requests int }
	if err := json.Unmarshal([]byte(p.must(t, args("plan", "--json")...).stdout), &plan); err != nil {
		t.Fatal(err)
	}
	requests() // of the plan
	run := p.begin(t, args("run", "--yes", "--quiet")...)
	ran := peakMemory(run)
	if got := run.endWithin(t, limit); got.code != 0 {
		t.Fatalf("exit code %d\n%s", got.code, got.stderr)
	}
	wantRequests(t, requests(), plan.Requests, qps)
	show := p.begin(t, "fleet", "show", "--json")
	began, showed := time.Now(), peakMemory(show)
	out := show.endWithin(t, 10*testTimeout)
	took, runMiB, showMiB := time.Since(began), <-ran>>20, <-showed>>20
	t.Logf("%d nodes: run needs %d MiB, show %d MiB and %v", len(f.names), runMiB, showMiB, took)
	if most := max(runMiB, showMiB); most == 0 || most > 500 {
		t.Errorf("%d MiB are needed, want 500 at most", most)
	}
	var shown shownFleet
	if err := json.Unmarshal([]byte(out.stdout), &shown); err != nil {
		t.Fatal(err)
	}
	f.want(t, shown)
}

// want wants that the slow nodes are found, and at most one other is named.
func (f *playedFleet) want(t *testing.T, shown shownFleet) {
	t.Helper()
	var wrong []string
	for _, n := range shown.Nodes {
		if n.State != string(fleet.Done) || n.Rounds != 10 {
			t.Errorf("node %s is %s after %d rounds: %s", n.Name, n.State, n.Rounds, n.Reason)
		}
		named := slices.Contains([]string{"slow", "fast", "unsteady"}, n.Verdict)
		switch {
		case f.planted[n.Name] && n.Verdict != "slow":
			t.Errorf("node %s is %s: it is slower by 20 %%", n.Name, n.Verdict)
		case named && !f.planted[n.Name]:
			wrong = append(wrong, n.Name)
		}
	}
	t.Logf("wrongly named: %q", wrong)
	if len(shown.Nodes) != len(f.names) || len(wrong) > 1 {
		t.Errorf("%d nodes; wrongly named: %q", len(shown.Nodes), wrong)
	}
}

// wantRequests wants that there were no more requests than were planned, and at no time more than the rate allows: 2.5
// seconds' after a rest, and those of a moment that were sent earlier.
func wantRequests(t *testing.T, all []time.Time, planned int, qps float64) {
	t.Helper()
	const underway = 16
	if len(all) == 0 {
		t.Fatal("the server knows of no request")
	}
	slices.SortFunc(all, time.Time.Compare)
	t.Logf("%d requests in %v, and %d were planned", len(all), all[len(all)-1].Sub(all[0]), planned)
	if len(all) > planned {
		t.Errorf("%d requests, and %d were planned", len(all), planned)
	}
	left := 2.5 * qps
	for i, at := range all {
		if i > 0 {
			left = min(2.5*qps, left+qps*at.Sub(all[i-1]).Seconds())
		}
		if left--; left < -underway {
			t.Errorf("request %d of %d came %.0f too early", i, len(all), -left)
			break
		}
	}
}
