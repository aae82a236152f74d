package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"runtime"
	"slices"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/fleet"
	"github.com/tare-bench/tare/internal/fleet/pairs"
	"github.com/tare-bench/tare/internal/fleet/pod"
	"github.com/tare-bench/tare/internal/fleet/podlog"
	"github.com/tare-bench/tare/internal/fleet/trips"
	"github.com/tare-bench/tare/internal/run"
	"github.com/tare-bench/tare/internal/store/record"
)

// podGrace is how long the trial in flight may take when the pod is to end: less than the grace of the pod.
const podGrace = 20 * time.Second

// Pod measures on one node of a fleet: it waits for the start signal, measures in each round, and writes what it has
// measured to log, the pod's standard output. When interrupt is closed, it ends after the trial in flight. The
// error is for the exit code: the log says it, too. The App needs a state directory.
func (a *App) Pod(ctx context.Context, site *pod.Site, log io.Writer, interrupt <-chan struct{}) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	waiting, end := context.WithCancel(ctx)
	defer end()
	go func() {
		select {
		case <-interrupt:
			end()
			time.AfterFunc(podGrace, cancel)
		case <-waiting.Done():
		}
	}()
	own := *a
	own.config.Observer = NopObserver{} // the log is for records alone
	p := &podRun{
		app: &own, Site: site, log: podlog.NewWriter(log), interrupt: interrupt, waiting: waiting, round: -1,
	}
	err := p.log.Hello(podlog.Hello{
		Wall: a.config.Now().UTC(), Node: site.Node, Pass: site.Pass, Arch: runtime.GOARCH, Tool: a.config.Version,
	})
	if err != nil {
		return err
	}
	measured := p.measure(ctx)
	outcome, reason := podlog.Done, ""
	if measured != nil {
		outcome, reason = podlog.Failed, measured.Error()
	}
	digest, err := p.log.End(outcome, reason)
	if err == nil {
		err = site.Leave(digest.Message())
	}
	return errors.Join(measured, err)
}

// podRun is the run of a pod.
type podRun struct {
	*pod.Site
	app       *App
	log       *podlog.Writer
	interrupt <-chan struct{}
	waiting   context.Context // ends with the interrupt

	start *fleet.Start
	ahead time.Duration  // the node's clock, of the cluster's: see fleet.Peer
	round int            // the last that was begun; -1 for none
	trips *trips.Session // nil where no round trips are measured
	begin time.Duration  // from the beginning of a round to its first slot
}

// measure waits for the start signal, and measures.
func (p *podRun) measure(ctx context.Context) error {
	if own := p.app.config.Version; own != p.Order.Tool {
		return fmt.Errorf("its image has tare %s, and the fleet was begun with %s: push it again, and give --image by the "+
			"digest", own, p.Order.Tool)
	}
	part := p.onlyMeet
	if p.Network != pairs.Host {
		var err error
		if part, err = p.node(ctx); err != nil {
			return err
		}
	}
	stopListening, err := p.listen()
	if err != nil {
		return err
	}
	defer stopListening()
	if p.start, err = p.AwaitStart(p.waiting, p.Order.Wait); err != nil {
		if errors.Is(err, context.Canceled) {
			err = errors.New("the pod was ended before its start signal came")
		}
		return err
	}
	if p.ahead = p.Ahead(p.start); p.ahead != 0 { // what is stored has the cluster's times, like the other nodes
		now := p.app.config.Now
		p.app.config.Now = func() time.Time { return now().Add(-p.ahead) }
	}
	p.meet()
	err = part()
	switch {
	case errors.Is(err, run.ErrInterrupted) || err != nil && ctx.Err() != nil:
		return fmt.Errorf("the pod was ended after it had begun %d of %d rounds", p.round+1, p.Rounds())
	case err == nil && p.round < 0:
		return fmt.Errorf("all %d rounds were over when the start signal came", p.Rounds())
	}
	return err
}

// node returns what measures the node: the plan of the fleet, block by block.
func (p *podRun) node(ctx context.Context) (func() error, error) {
	var plan bench.Plan
	if err := json.Unmarshal(p.Source, &plan); err != nil {
		return nil, fmt.Errorf("the plan: %w", err)
	}
	plan = podPlan(plan, p.Order.Fleet, p.Node, p.Pass, p.Rounds())
	planned, err := p.app.replan(ctx, plan, enginesOf(plan), p.app.runSite(p.Run()))
	if err == nil {
		err = planned.Usable(ctx)
	}
	return func() error {
		store := &podStore{to: p.log, failed: map[int]string{}, worked: map[int]bool{}}
		_, err := p.app.Measure(ctx, store, planned, Options{Interrupt: p.interrupt, barrier: p.barrier})
		if err == nil {
			err = errors.Join(p.log.Flush(), p.meetOthers())
		}
		if err == nil && p.round >= 0 {
			err = store.never(plan.Cells)
		}
		return err
	}, err
}

// onlyMeet measures round trips in each round, and nothing else.
func (p *podRun) onlyMeet() error {
	for {
		round, _, more := pod.NextRound(p.start, p.Rounds(), p.round, p.app.config.Now())
		if !more {
			return nil
		}
		p.round = round
		if err := p.meetOthers(); err != nil {
			return err
		}
	}
}

// enginesOf are those that a plan names.
func enginesOf(p bench.Plan) []Instance {
	return slices.DeleteFunc(Builtin(), func(i Instance) bool {
		return !slices.ContainsFunc(p.Cells, func(c bench.Cell) bool { return c.Engine == i.Name })
	})
}

// nativeName is the engine that is a plain process.
const nativeName = "native"

// podPlan is the plan of one node's run: that of the fleet, with the rounds of the pass.
func podPlan(p bench.Plan, id, node string, pass, rounds int) bench.Plan {
	p.MinBlocks, p.MaxBlocks = rounds, rounds
	p.Labels = append(slices.Clone(p.Labels),
		bench.Label{Key: fleet.LabelFleet, Value: id},
		bench.Label{Key: fleet.LabelNode, Value: node},
		bench.Label{Key: fleet.LabelPass, Value: fmt.Sprint(pass)})
	return p
}

// barrier lets each block begin with a round. What was measured before is in the log by then.
func (p *podRun) barrier(_ context.Context, block int, reason bench.StopReason) (bench.StopReason, error) {
	if err := p.log.Flush(); err != nil {
		return "", err
	}
	if reason == bench.StopAllFailed {
		return reason, nil
	}
	if block < 0 {
		return "", nil // nothing is kept of a warm-up that must be at the same time
	}
	if err := p.meetOthers(); err != nil {
		return "", err
	}
	round, at, ok := pod.NextRound(p.start, p.Rounds(), p.round, p.app.config.Now())
	if !ok {
		return bench.StopBudget, nil
	}
	if err := pod.SleepUntil(p.waiting, p.app.config.Now, at); err != nil {
		return "", run.ErrInterrupted
	}
	p.round = round
	return "", nil
}

// listen answers the round trips of others, if any are measured.
func (p *podRun) listen() (stop func(), err error) {
	if !slices.Contains(p.Order.Networks, p.Network) || p.Pass != 1 {
		return func() {}, nil
	}
	token, err := p.Token()
	if err != nil || token == nil {
		return nil, fmt.Errorf("the fleet's token: %w", errors.Join(err, errors.New("it is needed for round trips")))
	}
	at, err := netip.ParseAddr(p.Address)
	if err != nil {
		return nil, fmt.Errorf("listen for round trips: %w", err)
	}
	l, err := trips.Listen(netip.AddrPortFrom(at, fleet.PeerPort), token)
	if err != nil {
		return nil, fmt.Errorf("listen for round trips: %w", err)
	}
	stop = func() { _ = l.Close() } // nobody waits for it
	if p.Order.Throughput {
		b, err := trips.ListenBulk(netip.AddrPortFrom(at, fleet.PeerPort), token)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("listen for transfers: %w", err), l.Close())
		}
		stop = func() { _, _ = l.Close(), b.Close() }
	}
	p.trips = &trips.Session{
		Token: token, Seed: p.Order.Seed, Network: p.Network, Networks: p.Order.Networks, Slot: trips.MinSlot,
	}
	return stop, nil
}

// meet finds out whom the pod meets, among those that ran when the start signal was written.
func (p *podRun) meet() {
	at := slices.IndexFunc(p.start.Peers, func(x fleet.Peer) bool { return x.Node == p.Node })
	if p.trips == nil || at < 0 || len(p.start.Peers) < 2 {
		p.trips = nil
		return
	}
	p.trips.Self = at
	var zones []string
	for _, x := range p.start.Peers {
		address := x.Address
		if p.Network == pairs.Host {
			address = x.Host
		}
		var peer netip.AddrPort
		if ip, err := netip.ParseAddr(address); err == nil {
			peer = netip.AddrPortFrom(ip, fleet.PeerPort)
		}
		p.trips.Peers, zones = append(p.trips.Peers, peer), append(zones, x.Zone)
	}
	p.trips.Slots = pairs.Slots(p.Order.Seed, zones, p.Rounds(), p.Order.PerRound)
	if p.Order.Throughput {
		p.trips.Waves = pairs.Waves(p.Order.Seed, p.trips.Slots)
	}
	p.begin = p.start.Round - slotTime(len(p.start.Peers), p.Order.PerRound, p.Order.Throughput)
}

// slotRest lies between the last slot of a round and the next round: who is late for that leaves it out.
const slotRest = time.Second

// slotTime is how long the slots of a round take, at its end, in which round trips are measured, and throughput after
// them.
func slotTime(nodes, perRound int, throughput bool) time.Duration {
	slots := perRound
	if throughput {
		slots += pairs.WavesPerRound(nodes, perRound)
	}
	return time.Duration(slots)*trips.MinSlot + slotRest
}

// meetOthers measures the round trips of the round that was begun last.
func (p *podRun) meetOthers() error {
	if p.trips == nil || p.round < 0 {
		return nil
	}
	begin := p.start.Began.Add(time.Duration(p.round)*p.start.Round + p.begin)
	if err := pod.SleepUntil(p.waiting, p.app.config.Now, begin); err != nil {
		return run.ErrInterrupted
	}
	measured := p.trips.Measure(p.waiting, p.round, begin.Add(p.ahead)) // it looks at the node's clock
	for i := range measured {
		t := &measured[i]
		t.Client, t.Server = p.start.Peers[t.Client].Index, p.start.Peers[t.Server].Index
	}
	return p.log.Trips(measured)
}

// A podStore keeps one run: it writes its records into the log of the pod.
type podStore struct {
	EmptyStore
	to     io.Writer
	failed map[int]string // by cell: why its first trial failed
	worked map[int]bool   // the cells of which a trial has succeeded
}

// never is an error if no trial of a cell has succeeded.
func (s *podStore) never(cells []bench.Cell) error {
	for i, c := range cells {
		if why := s.failed[i]; why != "" && !s.worked[i] {
			return fmt.Errorf("no trial of %s succeeded: %s", c.Name, why)
		}
	}
	return nil
}

// Create implements bench.Store.
func (s *podStore) Create(_ context.Context, h bench.Header) (bench.RunWriter, error) {
	w, err := record.NewWriter(s.to, h)
	return podWriter{w, s}, err
}

// A podWriter writes the run of a podStore.
type podWriter struct {
	bench.RunWriter
	store *podStore
}

// Append implements bench.RunWriter.
func (w podWriter) Append(ctx context.Context, sample bench.Sample) error {
	switch s, cell := w.store, sample.Trial.Cell; {
	case sample.Outcome == bench.OK:
		s.worked[cell] = true
	case s.failed[cell] == "":
		s.failed[cell] = string(sample.Outcome) + ": " + bench.BriefReason(sample.Reason)
	}
	return w.RunWriter.Append(ctx, sample)
}
