package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/native"
)

// planned is a plan with the engines that it was held to.
type planned struct {
	plan      bench.Plan
	workload  bench.Workload
	probed    []probed
	instances []instance
	site      site // where the engines work
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
	wanted := map[string]bool{}
	for _, c := range p.plan.Cells {
		wanted[c.Engine] = true
	}
	var out []probed
	for _, e := range p.probed {
		if wanted[e.instance.Name] {
			out = append(out, e)
		}
	}
	return out
}

// usedInstances are the engines that the plan uses.
func (p *planned) usedInstances() (all []instance) {
	for _, e := range p.used() {
		all = append(all, e.instance)
	}
	return all
}

// usable reports why an engine of the plan cannot be used here.
func (p *planned) usable() error {
	var errs []error
	for _, e := range p.used() {
		if err := e.err; err != nil {
			errs = append(errs, fmt.Errorf("engine %s: %w", e.instance.Name, err))
		}
	}
	if errs == nil {
		return nil
	}
	var usable []string
	for _, e := range p.probed {
		if e.err == nil {
			usable = append(usable, e.instance.Name)
		}
	}
	return &hintError{errors.Join(errs...), "usable here: --engine " + strings.Join(usable, ",") + "; 'tare doctor' says more"}
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
