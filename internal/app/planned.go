package app

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/native"
	"github.com/tare-bench/tare/internal/experiment"
	"github.com/tare-bench/tare/internal/kernel/host"
)

// Planned is a plan with the engines that it was held to. It is measured once.
type Planned struct {
	Plan     bench.Plan
	Workload bench.Workload
	Probed   []Probed // engines that it uses; all, where it takes what is found

	instances  []Instance  // all that it may use
	engineSite *EngineSite // where the engines work
}

// Plan expands an experiment for this machine or, where an address is given, for the
// engines of the machine there. An experiment that cannot be planned is a Problem; where
// only its options contradict one another, there is a plan beside it. Whether the engines
// can be used, Usable says.
func (a *App) Plan(ctx context.Context, e *experiment.Experiment, address string) (*Planned, error) {
	p := &Planned{engineSite: a.EngineSite("plan", "")}
	if a.state != "" {
		p.engineSite = a.runSite(newRunID(a.config.Now()))
	}
	var err error
	if p.instances, err = a.instancesAt(ctx, address, e.Instances()); err != nil {
		return nil, err
	}
	if err := p.expand(ctx, e); err != nil {
		return nil, err
	}
	p.Workload = workloadNamed(p.Plan.Workload)
	p.nameOnlyImage()
	p.chooseTurns(address != "", host.Facts(fsRoot).Memory)
	return p, p.checkParams()
}

// expand makes the plan of an experiment. Engines that it cannot use are not asked
// what they are: each question costs the machine time.
func (p *Planned) expand(ctx context.Context, e *experiment.Experiment) error {
	able := knownDrivers(p.instances)
	var unasked error
	k := knownNames()
	k.Found = func() []string {
		if p.Probed == nil {
			p.Probed, unasked = p.engineSite.Probe(ctx, able)
		}
		return p.usableEngines()
	}
	var err error
	p.Plan, err = e.Plan(k, randomSeed())
	switch {
	case unasked != nil:
		return unasked
	case err != nil:
		return &Problem{Kind: BadPlan, Err: err}
	case p.Probed == nil:
		p.Probed, err = p.engineSite.Probe(ctx,
			slices.DeleteFunc(able, func(i Instance) bool { return !p.namesEngine(i.Name) }))
	}
	return err
}

// randomSeed draws the seed of a run. It is short enough to be typed, and for
// every program that reads JSON numbers as doubles.
func randomSeed() uint64 { return rand.Uint64N(1_000_000) }

// knownDrivers leaves out instances whose driver does not exist: the
// experiment's own check says so, with the place.
func knownDrivers(all []Instance) []Instance {
	return slices.DeleteFunc(slices.Clone(all), func(i Instance) bool {
		return !slices.ContainsFunc(drivers(), func(d driver) bool { return d.name == i.Driver && d.hasOptions(i.Options) })
	})
}

// replan holds a stored plan to the engines of this machine.
func (a *App) replan(ctx context.Context, plan bench.Plan, declared []Instance, s *EngineSite) (*Planned, error) {
	p := &Planned{Plan: plan, Workload: workloadNamed(plan.Workload), instances: declared, engineSite: s}
	if p.Workload == nil {
		return nil, fmt.Errorf("this version of tare has no workload %q", plan.Workload)
	}
	var err error
	if p.Probed, err = s.Probe(ctx, declared); err != nil {
		return nil, err
	}
	for _, c := range plan.Cells {
		if !slices.ContainsFunc(p.Probed, func(e Probed) bool { return e.Name == c.Engine }) {
			return nil, fmt.Errorf("the stored run does not describe its engine %q", c.Engine)
		}
	}
	return p, nil
}

// checkParams refuses options that contradict one another in every cell, because then
// nothing could run. If some cells can run, the plan is good.
func (p *Planned) checkParams() error {
	w, ok := p.Workload.(bench.ParamChecker)
	if !ok {
		return nil
	}
	var first error
	for _, c := range p.Plan.Cells {
		err := w.CheckParams(c.Params)
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
	}
	if first == nil {
		return nil
	}
	return &Problem{Kind: BadPlan, Err: first}
}

// usableEngines lists the engines that can be used here, of those that were asked.
func (p *Planned) usableEngines() (usable []string) {
	for _, e := range p.Probed {
		if e.Err == nil {
			usable = append(usable, e.Name)
		}
	}
	return usable
}

// namesEngine says whether a cell of the plan names an engine.
func (p *Planned) namesEngine(engine string) bool {
	return slices.ContainsFunc(p.Plan.Cells, func(c bench.Cell) bool { return c.Engine == engine })
}

// engines returns the engines that the plan's cells use, by name.
func (p *Planned) engines() map[string]bench.Engine {
	out := map[string]bench.Engine{}
	for _, e := range p.Used() {
		out[e.Name] = e.Engine
	}
	return out
}

// clientName is the engine of load generators. No cell can name it.
const clientName = "load generator"

// client makes the engine of load generators.
func (p *Planned) client() bench.Engine {
	return native.New(native.Config{
		Name: clientName, Run: p.engineSite.run, Dir: p.engineSite.dir, Images: p.engineSite.Images,
	})
}

// Used lists the engines that the plan's cells name.
func (p *Planned) Used() []Probed {
	return slices.DeleteFunc(slices.Clone(p.Probed), func(e Probed) bool { return !p.namesEngine(e.Name) })
}

// usedInstances are the engines that the plan uses.
func (p *Planned) usedInstances() (all []Instance) {
	for _, e := range p.Used() {
		all = append(all, e.Instance)
	}
	return all
}

// Usable reports why an engine of the plan cannot be used here, as a Problem that names
// those that can.
func (p *Planned) Usable(ctx context.Context) error {
	var errs []error
	for _, e := range p.Used() {
		if e.Err != nil {
			errs = append(errs, fmt.Errorf("engine %s: %w", e.Name, e.Err))
		}
	}
	if errs == nil {
		return nil
	}
	all := *p
	all.Probed, _ = p.engineSite.Probe(ctx, knownDrivers(p.instances)) // which others can be used
	return &Problem{Kind: Unusable, Err: errors.Join(errs...), Names: all.usableEngines()}
}

// LeftOut lists the engines that a run over all engines, or over a few of all, skips because they cannot be used.
// A run over chosen engines skips none.
func (p *Planned) LeftOut() []Probed {
	used := p.engines()
	var out []Probed
	for _, e := range p.Probed {
		_, is := used[e.Name]
		switch {
		case e.Err == nil && !is && !slices.Contains(p.Plan.LeftOut, e.Name):
			return nil
		case e.Err != nil && !is:
			out = append(out, e)
		}
	}
	return out
}
