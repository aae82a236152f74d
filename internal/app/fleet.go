package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/experiment"
	"github.com/tare-bench/tare/internal/fleet"
	"github.com/tare-bench/tare/internal/fleet/cluster"
	"github.com/tare-bench/tare/internal/fleet/kube"
	"github.com/tare-bench/tare/internal/fleet/odd"
	"github.com/tare-bench/tare/internal/fleet/pairs"
	"github.com/tare-bench/tare/internal/run"
)

// What a fleet has if nobody asks for something else.
const (
	FleetRounds  = 10               // enough for a verdict on one node of a thousand
	FleetConfirm = 5                // rounds of the second pass
	FleetRound   = 30 * time.Second // where it is not known how long a block takes
	FleetMemory  = 1 << 30          // bytes of each pod
	fleetDisk    = 2 << 30          // bytes
)

// A FleetRequest is a fleet that is asked for.
type FleetRequest struct {
	Experiment *experiment.Experiment
	Rounds     int
	Round      time.Duration // 0 = by how long a block takes here
	Confirm    int           // rounds of the second pass; 0 = there is none
	Smallest   float64       // see fleet.Fleet
	Networks   []string      // see fleet.Fleet
	Throughput bool          // see fleet.Fleet
	Host       bool          // see fleet.Fleet
	Engines    []string      // what is compared with Host
	Image      string
	GroupBy    []string
	Selector   string   // of nodes
	Nodes      []string // names; empty = all
	Pod        cluster.Pod
	Lead       time.Duration // see cluster.Plan
}

// PlanFleet finds out what a fleet would be, and whether it can run. It makes nothing. An experiment that pods cannot
// measure is a Problem.
func (a *App) PlanFleet(
	ctx context.Context, s bench.Store, c *kube.Client, r FleetRequest,
) (*cluster.Preflight, error) {
	plan, err := a.fleetPlan(ctx, r)
	if err != nil {
		return nil, err
	}
	source, err := json.Marshal(plan)
	if err != nil {
		return nil, err
	}
	round := r.Round
	if round == 0 {
		round = a.fleetRound(ctx, s, plan)
	}
	r.Pod.Args = []string{"agent", "pod"}
	r.Pod.Memory, r.Pod.Disk = cmp.Or(r.Pod.Memory, FleetMemory), cmp.Or(r.Pod.Disk, fleetDisk)
	request := cluster.Request{Selector: r.Selector, Nodes: r.Nodes, Plan: cluster.Plan{Pod: r.Pod, Lead: r.Lead}}
	request.Fleet = fleet.Fleet{
		Format: fleet.Format, ID: newRunID(a.config.Now()), Tool: a.config.Version, Began: a.config.Now().UTC(),
		Cluster: c.Server(), Namespaces: []string{c.Namespace()}, Image: r.Image,
		Experiment: plan.Name, Source: string(source), Seed: plan.Seed, Rounds: r.Rounds, Round: round, Confirm: r.Confirm,
		Smallest: r.Smallest, Networks: r.Networks, Throughput: r.Throughput,
		Host: r.Host, GroupBy: r.GroupBy,
	}
	found, err := cluster.CheckFirst(ctx, c, request)
	if err != nil {
		return nil, err
	}
	f := &found.Plan.Fleet
	if n := len(f.Nodes); f.Throughput && n > pairs.MostBulk {
		found.Problems = append(found.Problems, fmt.Sprintf("throughput is measured between at most %d nodes, and these are "+
			"%d: choose some with --nodes", pairs.MostBulk, n))
		return found, nil
	}
	if len(f.Networks) > 0 {
		f.Slots = slotTime(len(f.Nodes), pairs.PerRound(len(f.Nodes), f.Rounds), f.Throughput)
	}
	switch block := ExpectedBlock(ctx, s, plan); {
	case r.Round == 0:
		f.Round += f.Slots
	case f.Slots >= f.Round:
		found.Problems = append(found.Problems, fmt.Sprintf("the round trips of a round take %v, and a round has %v: "+
			"ask for longer rounds, such as --round %v", f.Slots, f.Round, f.Slots+a.fleetRound(ctx, s, plan)))
	case block > f.Round-f.Slots:
		found.Notes = append(found.Notes, fmt.Sprintf("a block took %v here, and a round has %v for it: nodes that take as "+
			"long miss rounds, unless you ask for longer ones, such as --round %v", block.Round(100*time.Millisecond),
			f.Round-f.Slots, f.Slots+a.fleetRound(ctx, s, plan)))
	}
	found.Estimate()
	return found, nil
}

// fleetPlan expands an experiment for pods: of its cells those that are a plain process and compared with others. What
// is compared are nodes. On the hosts themselves, it has containers, too.
func (a *App) fleetPlan(ctx context.Context, r FleetRequest) (bench.Plan, error) {
	one, no := 1, false
	engines := []string{nativeName}
	if r.Host {
		engines = r.Engines
	}
	err := r.Experiment.Override(experiment.Overrides{
		Factors: []experiment.Levels{{Factor: "engine", Levels: engines}},
		Blocks:  fmt.Sprint(r.Rounds), Budget: "off", Precision: []string{"off"}, Warmup: &one, Control: &no,
	})
	if err != nil {
		return bench.Plan{}, &Problem{Kind: BadPlan, Err: err}
	}
	p, err := a.Plan(ctx, r.Experiment, "")
	if err != nil {
		return bench.Plan{}, err
	}
	plan := p.Plan
	plan.Cells = slices.DeleteFunc(slices.Clone(plan.Cells), func(c bench.Cell) bool {
		return !r.Host && (!c.Baseline || c.Engine != nativeName)
	})
	if len(plan.Cells) == 0 {
		return plan, &Problem{Kind: BadPlan, Err: fmt.Errorf(
			"experiment %s has nothing that a plain process can measure, and a pod runs nothing else: add "+
				"--host, or choose another, such as cpu, memory or disk", plan.Name)}
	}
	for _, declared := range r.Experiment.Instances() {
		uses := func(c bench.Cell) bool { return c.Engine == declared.Name }
		if slices.ContainsFunc(plan.Cells, uses) {
			return plan, &Problem{Kind: BadPlan, Err: fmt.Errorf("experiment %s declares the engine %s, and pods know only "+
				"those that need no declaration, such as runc and containerd", plan.Name, declared.Name)}
		}
	}
	for _, h := range plan.Hooks {
		if h.Do != bench.HookCommand {
			return plan, &Problem{Kind: BadPlan, Err: fmt.Errorf("experiment %s has the hook %s, which a pod may not run",
				plan.Name, h.Do)}
		}
	}
	return plan, nil
}

// fleetRound is how long a round is to be: what a block took here, and half of it more, in steps of five seconds.
func (a *App) fleetRound(ctx context.Context, s bench.Store, plan bench.Plan) time.Duration {
	block := ExpectedBlock(ctx, s, plan)
	if block == 0 {
		return FleetRound
	}
	const step = 5 * time.Second
	return max(2*step, (block*3/2 + step).Round(step))
}

// FleetHooks are told how a fleet goes. Any may be nil. They are never called at the same time.
type FleetHooks struct {
	Pass     func(f *fleet.Fleet, pass, nodes int) // a pass begins, or goes on
	Progress func(phase cluster.Phase, done, total int)
	Outcome  func(fleet.Outcome)
	Trouble  func(error)
	Keep     bool // leave in the cluster what is there of the fleet
}

// RunFleet runs what was planned to its end, stores it, and removes it from the cluster. If the context ends, or
// something goes wrong, the error is a Problem, and GatherFleet goes on from there. A fleet of which nodes are
// missing has ErrTrialsFailed.
func (a *App) RunFleet(ctx context.Context, s bench.Store, c *kube.Client, p *cluster.Plan, h FleetHooks) error {
	keeper, err := fleetKeeper(s)
	if err != nil {
		return err
	}
	r := &fleetRun{app: a, store: s, keeper: keeper, client: c, plan: p, hooks: h}
	if err := r.save(ctx); err != nil {
		return err
	}
	return r.goOn(ctx)
}

// GatherFleet goes on with a fleet that another client has begun: with what is known of it here, and in the cluster.
func (a *App) GatherFleet(ctx context.Context, s bench.Store, c *kube.Client, id string, h FleetHooks) error {
	keeper, err := fleetKeeper(s)
	if err != nil {
		return err
	}
	known, err := FindFleet(ctx, s, id)
	namespace := c.Namespace()
	if err == nil {
		id, namespace = known.ID, known.Namespaces[0]
	}
	plan, findErr := cluster.Find(ctx, c, namespace, id)
	switch {
	case errors.Is(findErr, kube.ErrNotFound) && err == nil:
		outcome := fleetOutcome(known) // all of it is stored, or it is gone
		if outcome != nil && known.Cluster != c.Server() {
			return &Problem{Kind: OtherCluster, Run: id, Err: fmt.Errorf("fleet %s was begun on %.200q, and %s has nothing of it",
				id, known.Cluster, c.Server())}
		}
		return outcome
	case errors.Is(findErr, kube.ErrNotFound):
		return errors.Join(err, findErr)
	case findErr != nil:
		return findErr
	}
	if err == nil {
		plan.Fleet.Outcomes, plan.Fleet.Trips = known.Outcomes, known.Trips
		if len(known.Starts) > len(plan.Fleet.Starts) {
			plan.Fleet.Starts, plan.Fleet.Ahead = known.Starts, known.Ahead
		}
	}
	r := &fleetRun{app: a, store: s, keeper: keeper, client: c, plan: plan, hooks: h}
	return r.goOn(ctx)
}

// A fleetRun is a fleet that this client works on.
type fleetRun struct {
	app    *App
	store  bench.Store
	keeper bench.FleetKeeper
	client *kube.Client
	plan   *cluster.Plan
	hooks  FleetHooks
	saved  time.Time
	trips  map[source]bool // whose round trips the plan has; nil = not known yet
}

// notStarted is the error of a fleet that measures nothing.
type notStarted struct{ error }

// goOn does what is left to do. Of a fleet that cannot start, nothing is left in the cluster.
func (r *fleetRun) goOn(ctx context.Context) error {
	f := &r.plan.Fleet
	err := r.passes(ctx)
	var not *notStarted
	if errors.As(err, &not) {
		err = not.error
		r.failWaiting(err)
		if !r.hooks.Keep {
			err = errors.Join(err, r.clean(ctx))
		}
		return &Problem{Kind: FleetFailed, Err: errors.Join(err, r.save(ctx)), Run: f.ID}
	}
	err = errors.Join(err, r.save(ctx))
	if err == nil && !r.hooks.Keep {
		err = r.clean(ctx)
	}
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("fleet %s: %w", f.ID, run.ErrInterrupted)
		}
		return &Problem{Kind: FleetStopped, Err: err, Run: f.ID}
	}
	return fleetOutcome(f)
}

// failWaiting says of the nodes of a fleet that did not start that nothing will come of them.
func (r *fleetRun) failWaiting(why error) {
	f := &r.plan.Fleet
	for _, n := range f.Nodes {
		o := fleet.Outcome{Node: n.Name, Pass: 1, State: fleet.Waiting}
		if known := f.OutcomeOf(n.Name, 1); known != nil {
			o = *known
		}
		if o.State == fleet.Waiting || o.State == fleet.Running {
			o.State, o.Reason = fleet.Failed, cmp.Or(o.Reason, why.Error())
			f.SetOutcome(o)
		}
	}
}

// passes measures and reads both passes.
func (r *fleetRun) passes(ctx context.Context) error {
	f := &r.plan.Fleet
	if err := r.pass(ctx, 1, nil); err != nil {
		return err
	}
	if f.Confirm == 0 {
		return nil
	}
	again, err := r.suspects(ctx)
	if err != nil || len(again) == 0 {
		return err
	}
	return r.pass(ctx, 2, again)
}

// pass measures and reads one pass of some nodes, by their indices; nil = all.
func (r *fleetRun) pass(ctx context.Context, pass int, nodes []int) error {
	f := &r.plan.Fleet
	if isOver(f, pass, nodes) {
		return nil
	}
	if r.hooks.Pass != nil {
		n := len(f.Nodes)
		if nodes != nil {
			n = len(nodes)
		}
		r.hooks.Pass(f, pass, n)
	}
	h := cluster.Hooks{
		Progress: r.hooks.Progress, Trouble: r.hooks.Trouble, Sink: r.sink,
		Outcome: func(o fleet.Outcome) {
			if r.hooks.Outcome != nil {
				r.hooks.Outcome(o)
			}
			r.saveNowAndThen(ctx)
		},
	}
	if len(f.Starts) < pass || f.Starts[pass-1].IsZero() {
		if err := cluster.Start(ctx, r.client, r.plan, pass, nodes, h); err != nil {
			if not := (*cluster.NotStarted)(nil); pass == 1 && ctx.Err() == nil && errors.As(err, &not) {
				err = &notStarted{err}
			}
			return err
		}
		if err := r.save(ctx); err != nil {
			return err
		}
	}
	if err := cluster.Gather(ctx, r.client, r.plan, pass, h); err != nil {
		return err
	}
	return r.save(ctx)
}

// isOver reports whether all nodes of a pass are done, or have failed for good, and what their other pods have measured
// is read.
func isOver(f *fleet.Fleet, pass int, nodes []int) bool {
	if len(f.Starts) < pass || pass == 1 && lacksTrips(f) {
		return false
	}
	over := func(i int) bool {
		o := f.OutcomeOf(f.Nodes[i].Name, pass)
		return o != nil && (o.State == fleet.Done || o.State == fleet.Failed || o.State == fleet.Gone)
	}
	if nodes == nil {
		for i := range f.Nodes {
			if !over(i) {
				return false
			}
		}
		return true
	}
	return !slices.ContainsFunc(nodes, func(i int) bool { return !over(i) })
}

// lacksTrips reports whether nodes that are done have no round trips over the hosts' network, which other pods of theirs
// measure.
func lacksTrips(f *fleet.Fleet) bool {
	if !slices.Contains(f.Networks, pairs.Host) {
		return false
	}
	have := map[string]bool{}
	for _, t := range f.Trips {
		if t.Network == pairs.Host && t.Client >= 0 && t.Client < len(f.Nodes) {
			have[f.Nodes[t.Client].Name] = true
		}
	}
	return slices.ContainsFunc(f.Outcomes, func(o fleet.Outcome) bool {
		return o.Pass == 1 && o.State == fleet.Done && !have[o.Node]
	})
}

// suspects are the nodes of the second pass. They are the same whenever this is asked.
func (r *fleetRun) suspects(ctx context.Context) ([]int, error) {
	in, unread, err := JudgeFleet(ctx, r.store, &r.plan.Fleet)
	if err != nil {
		return nil, err
	}
	if unread != nil && r.hooks.Trouble != nil {
		r.hooks.Trouble(unread)
	}
	for m := range in.Odd.Metrics {
		in.Odd.Metrics[m].Again = nil
	}
	return odd.Recheck(in.Odd, odd.Judge(in.Odd), r.plan.Fleet.Seed), nil
}

// clean removes the fleet from the cluster.
func (r *fleetRun) clean(ctx context.Context) error {
	_, foreign, err := cluster.Clean(ctx, r.client, r.plan, cluster.Hooks{
		Progress: r.hooks.Progress, Trouble: r.hooks.Trouble,
	})
	if err == nil && foreign > 0 && r.hooks.Trouble != nil {
		r.hooks.Trouble(foreignObjects(foreign))
	}
	return err
}

func foreignObjects(n int) error {
	return fmt.Errorf("%d objects have the label of the fleet but were not made by it: they stay", n)
}

// save stores what is known of the fleet, also when the user has interrupted.
func (r *fleetRun) save(ctx context.Context) error {
	text, err := json.Marshal(r.plan.Fleet)
	if err != nil {
		return err
	}
	r.saved = time.Now()
	return r.keeper.PutFleet(context.WithoutCancel(ctx), r.plan.Fleet.ID, text)
}

// saveNowAndThen saves the fleet while it changes, which can be often. A later save says what is wrong.
func (r *fleetRun) saveNowAndThen(ctx context.Context) {
	const pause = 5 * time.Second
	if time.Since(r.saved) > pause {
		_ = r.save(ctx)
	}
}

// fleetOutcome is how a fleet has ended: ErrTrialsFailed if nodes of it are missing, nil if all were measured.
func fleetOutcome(f *fleet.Fleet) error {
	measured, missing := 0, 0
	var first fleet.Outcome
	for _, n := range f.Nodes {
		o := f.OutcomeOf(n.Name, 1)
		if o != nil {
			measured += min(o.Rounds, 1)
		}
		if o != nil && o.State == fleet.Done && o.Rounds > 0 {
			continue
		}
		if missing++; o != nil && missing == 1 {
			first = *o
		}
	}
	switch {
	case measured == 0 && len(f.Nodes) > 0:
		why := cmp.Or(first.Reason, string(first.State), "no pod ran")
		return &Problem{Kind: FleetFailed, Run: f.ID, Err: fmt.Errorf("fleet %s measured nothing: node %s: %s", f.ID,
			cmp.Or(first.Node, f.Nodes[0].Name), why)}
	case missing > 0:
		return ErrTrialsFailed
	}
	return nil
}

// CleanFleet removes from the cluster what is there of a fleet, and says how many objects went. One that is still
// measured is removed, too.
func (a *App) CleanFleet(
	ctx context.Context, c *kube.Client, namespace, id string, h FleetHooks,
) (removed int, err error) {
	plan, err := cluster.Find(ctx, c, cmp.Or(namespace, c.Namespace()), id)
	if errors.Is(err, kube.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	removed, foreign, err := cluster.Clean(ctx, c, plan, cluster.Hooks{Progress: h.Progress, Trouble: h.Trouble})
	if err == nil && foreign > 0 {
		err = foreignObjects(foreign)
	}
	return removed, err
}
