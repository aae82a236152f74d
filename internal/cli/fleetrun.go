package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/fleet"
	"github.com/tare-bench/tare/internal/fleet/cluster"
	"github.com/tare-bench/tare/internal/fleet/kube"
	"github.com/tare-bench/tare/internal/text/plain"
	"github.com/tare-bench/tare/internal/text/term"
	"github.com/tare-bench/tare/internal/text/unit"
)

func (a *invocation) fleetRunCommand() *cobra.Command {
	var o fleetOptions
	var yes, keep bool
	cmd := &cobra.Command{
		Use:   "run [EXPERIMENT|FILE]",
		Short: "Measure all nodes in rounds, and show which are odd",
		Long: `Run measures an experiment on every node of a cluster, 'quick' without an
argument. What a plain process in a pod gets on one node is compared with what
it gets on the others. With --host that is a process of the node itself, and
what a container costs there beside it is compared as well.

First it says what it is about to do, and asks if that is much. Then it makes a
Job for each node (two with --network host). When all pods run, the rounds
begin, two minutes later: so long it takes until all pods have heard of it.
Suspected nodes are measured a second time beside as many others. A node is
named only if both passes agree.

If the command is interrupted when the rounds have begun, the pods go on, and
'tare fleet gather' reads what they have measured. The exit code is 3 if nodes
are missing.`,
		Example: `  tare fleet run cpu --image registry.example.com/tools/tare:1
  tare fleet run --nodes pool=web --network pod,host --throughput --rounds 20
  tare fleet run lifecycle --host --engine native,containerd
  tare fleet run disk --param size=1GiB --round 1m --yes --json`,
		Args: atMostOne("an experiment"),
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := a.newApp()
			if err != nil {
				return err
			}
			return a.withStore(cmd.Context(), func(s bench.Store) error {
				c, found, err := a.preflight(cmd.Context(), t, s, args, &o)
				if err != nil {
					return err
				}
				return a.fleetRun(cmd.Context(), t, s, c, found, yes, keep)
			})
		},
	}
	o.addFlags(cmd)
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&keep, "keep", false, "leave Jobs and pods in the cluster when everything is read")
	return cmd
}

// fleetRun runs a fleet that was planned, and shows it.
func (a *invocation) fleetRun(
	ctx context.Context, t *app.App, s bench.Store, c *kube.Client, found *cluster.Preflight, yes, keep bool,
) error {
	if err := refused(found); err != nil {
		return err
	}
	if !a.global.Quiet {
		a.printFleetPlan(a.stderr, found)
	}
	if found.Ask != "" && !yes {
		agreed, err := a.agreedFleet(ctx, found.Ask)
		if err != nil || !agreed {
			return err
		}
	}
	h, done := a.fleetHooks(&found.Plan.Fleet, keep)
	err := t.RunFleet(ctx, s, c, &found.Plan, h)
	done()
	return a.concludeFleet(ctx, s, found.Plan.Fleet.ID, err)
}

// agreedFleet asks whether a fleet is to run.
func (a *invocation) agreedFleet(ctx context.Context, why string) (bool, error) {
	if !a.canAsk() {
		return false, &usageError{
			fmt.Errorf("this is much for a cluster, and nobody can be asked: %s", plain.Line(why)),
			"--yes runs without asking; 'tare fleet plan' shows what would be done",
		}
	}
	fmt.Fprintf(a.stderr, "%s. Go on? [y/N] ", plain.Line(why))
	answer, err := a.answer(ctx)
	if err != nil {
		return false, err
	}
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes", nil
}

// concludeFleet shows a fleet that has ended, and what became of it. One that was interrupted is not shown.
func (a *invocation) concludeFleet(ctx context.Context, s bench.Store, id string, outcome error) error {
	if isKind(outcome, app.FleetStopped) || ctx.Err() != nil {
		return outcome
	}
	return errors.Join(outcome, a.showFleet(context.WithoutCancel(ctx), s, id, fleetShowOptions{}))
}

func (a *invocation) fleetGatherCommand() *cobra.Command {
	var o clusterOptions
	var keep bool
	cmd := &cobra.Command{
		Use:   "gather [FLEET]",
		Short: "Go on with a fleet whose 'tare fleet run' was interrupted",
		Long: `Gather reads what the pods of a fleet have measured and does what is left to do,
on this machine or another. FLEET is an ID, a unique beginning or end of one, or
"last", which is the default: of the fleets stored here, else of those in the
cluster. Pods whose rounds have not begun give up after half an hour, or later in
large fleets. What was measured can be read for a day; then the cluster removes it.`,
		Args: atMostOne("a fleet"),
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := a.newApp()
			if err != nil {
				return err
			}
			c, err := a.openCluster(o)
			if err != nil {
				return err
			}
			if err := reach(cmd.Context(), c); err != nil {
				return err
			}
			return a.withStore(cmd.Context(), func(s bench.Store) error {
				id, err := fleetIn(cmd.Context(), s, c, append(args, "")[0])
				if err != nil {
					return err
				}
				h, done := a.fleetHooks(nil, keep)
				err = t.GatherFleet(cmd.Context(), s, c, id, h)
				done()
				return a.concludeFleet(cmd.Context(), s, id, err)
			})
		},
	}
	o.addFlags(cmd.Flags())
	cmd.Flags().BoolVar(&keep, "keep", false, "leave Jobs and pods in the cluster when everything is read")
	cmd.ValidArgsFunction = a.completeFleets
	return cmd
}

// fleetIn finds the ID of a fleet that is stored here or, if none is called so, is in the cluster.
func fleetIn(ctx context.Context, s bench.Store, c *kube.Client, name string) (id string, err error) {
	f, err := app.FindFleet(ctx, s, name)
	if err == nil {
		return f.ID, nil
	}
	if p := (*app.Problem)(nil); !errors.As(err, &p) || p.Kind != app.NoFleets && p.Kind != app.NoFleet {
		return "", err
	}
	found, listErr := cluster.List(ctx, c, c.Namespace())
	latest := name == "" || name == bench.LastRun
	if len(found) == 0 || latest && listErr != nil {
		return "", errors.Join(err, listErr)
	}
	if latest {
		newest := slices.MaxFunc(found, func(a, b cluster.Found) int { return a.Plan.Fleet.Began.Compare(b.Plan.Fleet.Began) })
		return newest.Plan.Fleet.ID, nil
	}
	ids, err := fleetsCalled(found, []string{name}, c.Namespace())
	if err != nil {
		return "", errors.Join(err, listErr)
	}
	return ids[0], nil
}

// printFleetPlan says what a fleet would be.
func (a *invocation) printFleetPlan(w io.Writer, p *cluster.Preflight) {
	f := &p.Plan.Fleet
	line := func(format string, args ...any) {
		term.WriteWrapped(w, "", plain.Line(fmt.Sprintf(format, args...)), defaultWidth)
	}
	line("%s on %s of %s, namespace %s", f.Experiment, unit.FormatCount(len(f.Nodes), "node"), f.Cluster,
		strings.Join(f.Namespaces, ", "))
	line("image %s", f.Image)
	passes := fmt.Sprintf("%d rounds of %s", f.Rounds, unit.FormatDuration(f.Round))
	if f.Confirm > 0 {
		passes += fmt.Sprintf(", then %d for nodes that are suspected", f.Confirm)
	}
	line("%s; about %s in all", passes, unit.FormatDuration(p.Length.Round(time.Second)))
	line("%s, about %s to the API server", unit.FormatCount(p.Objects, "object"), unit.FormatCount(p.Calls, "request"))
	const mostShown = 10
	for i, o := range f.LeftOut {
		if i == mostShown {
			line("… and %d more nodes are left out", len(f.LeftOut)-i)
			break
		}
		line("left out: %s: %s", o.Node, o.Reason)
	}
	for _, text := range append(append([]string(nil), p.Notes...), p.Admitted...) {
		line("note: %s", text)
	}
}

// A fleetProgress tells people on stderr how far a fleet is.
type fleetProgress struct {
	*progress
	mu    sync.Mutex
	fleet *fleet.Fleet // set when a pass begins
	pass  int
	phase cluster.Phase
	done  int
	total int
	// From and until say when the rounds of the pass begin and end; zero while nobody knows.
	from, until time.Time
}

// fleetHooks show how a fleet goes, until done is called.
func (a *invocation) fleetHooks(f *fleet.Fleet, keep bool) (h app.FleetHooks, done func()) {
	h = app.FleetHooks{Keep: keep}
	if a.global.Quiet {
		return h, func() {}
	}
	width, tty := terminal(a.stderr)
	p := &fleetProgress{
		progress: &progress{out: a.stderr, now: a.now, width: width, tty: tty, lastHeartbeat: a.now()}, fleet: f,
	}
	h.Pass, h.Progress = p.begin, p.observe
	h.Trouble = func(err error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.end()
		a.notice("%v", err)
	}
	h.Outcome = func(o fleet.Outcome) {
		if o.State != fleet.Failed && o.State != fleet.Gone {
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.failures++; p.failures <= maxShownFailures {
			p.end()
			a.notice("node %s: %s: %s", plain.Line(o.Node), o.State, plain.Line(o.Reason))
		} else if p.failures == maxShownFailures+1 {
			a.notice("further nodes without a result are counted but not shown here")
		}
	}
	ticker := time.NewTicker(time.Second)
	over := make(chan struct{})
	var drawing sync.WaitGroup
	drawing.Go(func() {
		for {
			select {
			case <-over:
				return
			case <-ticker.C:
				p.draw()
			}
		}
	})
	return h, sync.OnceFunc(func() {
		ticker.Stop()
		close(over)
		drawing.Wait()
		p.end()
	})
}

// begin notes that a pass begins.
func (p *fleetProgress) begin(f *fleet.Fleet, pass, nodes int) {
	p.mu.Lock()
	p.fleet, p.pass, p.total = f, pass, nodes
	p.phase, p.from, p.until = "", time.Time{}, time.Time{}
	p.mu.Unlock()
}

// observe notes how far a phase is.
func (p *fleetProgress) observe(phase cluster.Phase, done, total int) {
	p.mu.Lock()
	changed := phase != p.phase
	p.phase, p.done, p.total = phase, done, total
	if f := p.fleet; f != nil && p.pass > 0 && len(f.Starts) >= p.pass && !f.Starts[p.pass-1].IsZero() {
		rounds := f.Rounds
		if p.pass == 2 {
			rounds = f.Confirm
		}
		p.from = f.Starts[p.pass-1]
		p.until = p.from.Add(time.Duration(rounds) * f.RoundOf(p.pass))
	}
	if changed {
		p.lastHeartbeat = time.Time{} // each phase is said at once
	}
	p.mu.Unlock()
	p.draw()
}

func (p *fleetProgress) draw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if text := p.text(); text != "" {
		p.show(text)
	}
}

// text says how far the fleet is, and how long it takes at most.
func (p *fleetProgress) text() string {
	again := ""
	if p.pass == 2 {
		again = "second pass: "
	}
	left := func(t time.Time) string { return unit.FormatDuration(t.Sub(p.now()).Round(time.Second)) }
	switch p.phase {
	case cluster.Creating:
		return fmt.Sprintf("%s%d of %d Jobs made", again, p.done, p.total)
	case cluster.Starting:
		return fmt.Sprintf("%s%d of %d pods run", again, p.done, p.total)
	case cluster.Cleaning:
		return "removing the fleet from the cluster"
	case cluster.Measuring:
		round := p.fleet.RoundOf(p.pass)
		switch now := p.now(); {
		case p.from.IsZero():
			return fmt.Sprintf("%s%d of %d nodes read", again, p.done, p.total)
		case now.Before(p.from):
			return fmt.Sprintf("%sthe first round begins in %s", again, left(p.from))
		case now.Before(p.until):
			return fmt.Sprintf("%sround %d of %d, %s left; %d of %d nodes read", again, 1+int(now.Sub(p.from)/round),
				int(p.until.Sub(p.from)/round), left(p.until), p.done, p.total)
		}
		return fmt.Sprintf("%s%d of %d nodes read, the rounds are over", again, p.done, p.total)
	}
	return ""
}
