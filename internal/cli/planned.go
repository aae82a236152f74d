package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/native"
	"github.com/tare-bench/tare/internal/experiment"
)

// planned is a plan with the engines that it was held to.
type planned struct {
	plan      bench.Plan
	workload  bench.Workload
	probed    []probed   // those that it uses; all, where it takes what is found
	instances []instance // all that it may use
	site      site       // where the engines work
}

// expand makes the plan of an experiment. Engines that it cannot use are not asked
// what they are: each question costs the machine time.
func (p *planned) expand(ctx context.Context, e *experiment.Experiment) error {
	able := knownDrivers(p.instances)
	var unasked error
	k := known()
	k.Found = func() []string {
		if p.probed == nil {
			p.probed, unasked = probe(ctx, p.site, able)
		}
		return p.found()
	}
	var err error
	p.plan, err = e.Plan(k, randomSeed())
	switch {
	case unasked != nil:
		return unasked
	case err != nil:
		return &usageError{err: err}
	case p.probed == nil:
		p.probed, err = probe(ctx, p.site, slices.DeleteFunc(able, func(i instance) bool { return !p.names(i.Name) }))
	}
	return err
}

// checkParams refuses options that contradict one another in every cell: then nothing
// could run. A plan in which some cells can goes on without the others.
func (p *planned) checkParams() error {
	w, ok := p.workload.(bench.ParamChecker)
	if !ok {
		return nil
	}
	var first error
	for _, c := range p.plan.Cells {
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
	return &usageError{err: first}
}

// found lists the engines that can be used here, of those that were asked.
func (p *planned) found() (usable []string) {
	for _, e := range p.probed {
		if e.err == nil {
			usable = append(usable, e.instance.Name)
		}
	}
	return usable
}

// names says whether a cell of the plan names an engine.
func (p *planned) names(engine string) bool {
	return slices.ContainsFunc(p.plan.Cells, func(c bench.Cell) bool { return c.Engine == engine })
}

// engines returns the engines that the plan's cells use, by name.
func (p *planned) engines() map[string]bench.Engine {
	out := map[string]bench.Engine{}
	for _, e := range p.used() {
		out[e.instance.Name] = e.engine
	}
	return out
}

// clientName is the engine of load generators. No cell can name it.
const clientName = "load generator"

// client makes the engine of load generators.
func (p *planned) client() bench.Engine {
	return native.New(native.Config{Name: clientName, Run: p.site.run, Dir: p.site.dir, Images: p.site.images})
}

// used lists the probed engines that the plan's cells name.
func (p *planned) used() []probed {
	return slices.DeleteFunc(slices.Clone(p.probed), func(e probed) bool { return !p.names(e.instance.Name) })
}

// usedInstances are the engines that the plan uses.
func (p *planned) usedInstances() (all []instance) {
	for _, e := range p.used() {
		all = append(all, e.instance)
	}
	return all
}

// usable reports why an engine of the plan cannot be used here, and which can.
func (p *planned) usable(ctx context.Context) error {
	var errs []error
	for _, e := range p.used() {
		if err := e.err; err != nil {
			errs = append(errs, fmt.Errorf("engine %s: %w", e.instance.Name, err))
		}
	}
	if errs == nil {
		return nil
	}
	all := *p
	all.probed, _ = probe(ctx, p.site, knownDrivers(p.instances)) // the hint is of what it tells
	return &hintError{errors.Join(errs...), "usable here: --engine " + strings.Join(all.found(), ",") + "; 'tare doctor' says more"}
}

// leftOut lists the engines that a run over everything found does without. A
// run over chosen engines leaves nothing out.
func (p *planned) leftOut() []probed {
	used := p.engines()
	var out []probed
	for _, e := range p.probed {
		_, is := used[e.instance.Name]
		switch {
		case e.err == nil && !is:
			return nil
		case e.err != nil && !is:
			out = append(out, e)
		}
	}
	return out
}
