package experiment

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/experiment/yamldoc"
)

// planFactors lists what varies, with the levels that only a cell has.
func (p *planner) planFactors() []bench.Factor {
	var out []bench.Factor
	for i, f := range slices.Concat(p.factors, p.conditions) {
		levels := f.levelNames()
		for _, c := range p.file.cells {
			for _, l := range c.levels {
				if l.Key == f.name && !slices.Contains(levels, l.Value) {
					levels = append(levels, l.Value)
				}
			}
		}
		out = append(out, bench.Factor{Name: f.name, Levels: levels, Condition: i >= len(p.factors)})
	}
	return out
}

// cells expands the matrix: condition by condition, in each the cross product
// in the order of the file (the last factor varies fastest), then the cells
// that were written out, then the control.
func (p *planner) cells() []bench.Cell {
	if n := p.combinations(); n > maxCells {
		p.Fail(p.widestFactor(), fmt.Sprintf("the experiment has more than %d cells", maxCells),
			"compare fewer levels, or split it into several experiments")
		return nil
	}
	var all []bench.Cell
	for condition := range combine(p.conditions) {
		cells := p.conditionCells(condition)
		if len(cells) == 0 {
			continue // all of it was excluded
		}
		p.checkNames(cells)
		p.setBaseline(cells)
		if p.file.control.or(len(cells) > 1) { // a single cell has nothing to compare
			cells = append(cells, controlOf(cells))
		}
		all = append(all, cells...)
	}
	if len(all) == 0 {
		hint := "the experiment excludes every combination: " + p.exclusions()
		if !slices.ContainsFunc(p.known.Engines, func(name string) bool { return name != native }) {
			hint = "no engine that makes containers was found here; 'tare doctor' shows why"
		}
		p.Fail(p.widestFactor(), "no cell is left", hint)
	}
	return all
}

// combinations counts the cells before exclusions, and stops counting soon
// after there are too many.
func (p *planner) combinations() int {
	product := func(factors []factor) int {
		n := 1
		for _, f := range factors {
			n = min(n*len(f.levels), maxCells+1)
		}
		return n
	}
	perCondition := len(p.file.cells) + 1 // the control
	if p.hasMatrix() {
		perCondition += product(p.factors)
	}
	return min(perCondition, maxCells+1) * product(p.conditions)
}

// widestFactor is where the factor with the most levels is written.
func (p *planner) widestFactor() yamldoc.Place {
	widest := factor{at: p.file.workload.at}
	for _, f := range slices.Concat(p.factors, p.conditions) {
		if len(f.levels) > len(widest.levels) {
			widest = f
		}
	}
	return widest.at
}

// A choice is one level of a factor.
type choice struct {
	factor string
	level  level
}

// combine yields each combination of levels; one empty one where there are no
// factors. The last factor varies fastest.
func combine(factors []factor) iter.Seq[[]choice] {
	return func(yield func([]choice) bool) {
		index := make([]int, len(factors))
		for {
			combination := make([]choice, len(factors))
			for i, f := range factors {
				combination[i] = choice{f.name, f.levels[index[i]]}
			}
			if !yield(combination) {
				return
			}
			i := len(factors) - 1
			for ; i >= 0; i-- {
				if index[i]++; index[i] < len(factors[i].levels) {
					break
				}
				index[i] = 0
			}
			if i < 0 {
				return
			}
		}
	}
}

// conditionCells makes the cells of one condition, without baseline and control.
func (p *planner) conditionCells(condition []choice) []bench.Cell {
	var cells []bench.Cell
	if p.hasMatrix() {
		cells = p.matrixCells(condition)
	}
	for _, written := range p.file.cells {
		if c, ok := p.writtenCell(written, condition); ok {
			cells = append(cells, p.completeCell(c, written.at))
		}
	}
	return cells
}

// matrixCells makes the cells of the cross product. Combinations that differ
// only in what a plain process has no choice of are one cell.
func (p *planner) matrixCells(condition []choice) []bench.Cell {
	var cells []bench.Cell
	plain := map[string]bool{}
	for combination := range combine(p.factors) {
		chosen := slices.Concat(combination, condition)
		if p.excluded(chosen) {
			continue
		}
		c := p.newCell(condition, chosen)
		if c.Engine != native && isNative(chosen) {
			continue // the level stands for the plain process
		}
		if c.Engine == native {
			combination = choices(combination)
			c = p.newCell(condition, slices.Concat(combination, choices(condition)))
		}
		c.Name = p.cellName(combination, c.Engine)
		if c.Engine == native && plain[c.Name] {
			continue
		}
		plain[c.Name] = true
		cells = append(cells, p.completeCell(c, p.widestFactor()))
	}
	return cells
}

// isolationFactors are the factors that do not apply to a plain process: they describe how a
// container is isolated.
func isolationFactors() []string {
	return []string{
		"network", "storage", "runtime", "snapshotter", "shm",
		"seccomp", "userns", "read_only", "no_new_privileges", "privileged",
	}
}

// choices leaves out the factors that do not apply to a plain process. A Unix socket is a way to reach one,
// too.
func choices(chosen []choice) []choice {
	return slices.DeleteFunc(slices.Clone(chosen), func(c choice) bool {
		isSocket := c.factor == "network" && c.level.name == socketWord
		return !c.level.isNamed && !isSocket && slices.Contains(isolationFactors(), c.factor)
	})
}

// isNative reports whether a level of the network stands for the plain process.
func isNative(chosen []choice) bool {
	return slices.ContainsFunc(chosen, func(c choice) bool { return c.factor == "network" && c.level.isNative() })
}

func (l level) isNative() bool { return l.name == native && !l.isNamed }

// newCell makes a cell of what every cell is given and of chosen levels.
func (p *planner) newCell(condition, chosen []choice) bench.Cell {
	c := bench.Cell{Condition: conditionName(condition)}
	apply(&c, p.file.settings)
	for _, ch := range chosen {
		apply(&c, ch.level.settings)
		c.Levels = append(c.Levels, bench.Label{Key: ch.factor, Value: ch.level.name})
	}
	return c
}

// writtenCell makes a cell that was written out, unless it names a level of a
// condition other than this one.
func (p *planner) writtenCell(w cell, condition []choice) (bench.Cell, bool) {
	for _, ch := range condition {
		for _, l := range w.levels {
			if l.Key == ch.factor && l.Value != ch.level.name {
				return bench.Cell{}, false
			}
		}
	}
	c := p.newCell(condition, condition)
	var levels []bench.Label // in the order of the plan's factors
	for _, f := range p.factors {
		for _, l := range w.levels {
			if l.Key == f.name {
				levels = append(levels, l)
			}
		}
	}
	c.Name, c.Levels = w.name, append(levels, c.Levels...)
	apply(&c, w.settings)
	return c, true
}

// completeCell completes a cell. The workload's options are filled in, so that the
// plan stays what it is if a default ever changes. A plain process has the
// network of the host, so that is what it is asked for by default.
func (p *planner) completeCell(c bench.Cell, at yamldoc.Place) bench.Cell {
	if c.Engine == "" {
		p.Fail(at, fmt.Sprintf("cell %q has no engine", c.Name), "write engine: NAME, or engine: auto below factors")
	}
	if c.Engine == native && c.Spec.Network == "" {
		c.Spec.Network = "host"
	}
	var missing []setting
	for _, param := range p.workload.Params() {
		if _, ok := c.Params[param.Name]; !ok {
			missing = append(missing, paramSetting(param.Name, param.Default, yamldoc.Place{}))
		}
	}
	apply(&c, missing)
	return c
}

// excluded reports whether some exclusion matches.
func (p *planner) excluded(chosen []choice) bool {
	return slices.ContainsFunc(p.file.exclude, func(e exclusion) bool {
		return !slices.ContainsFunc(e, func(k pick) bool { return !k.matches(chosen) })
	})
}

// exclusions are all of them, as they are written.
func (p *planner) exclusions() string {
	var all []string
	for _, e := range p.file.exclude {
		var picks []string
		for _, k := range e {
			var levels []string
			for _, l := range k.levels {
				levels = append(levels, l.value)
			}
			picks = append(picks, k.factor+": "+strings.Join(levels, " or "))
		}
		all = append(all, strings.Join(picks, ", "))
	}
	return strings.Join(all, "; ")
}

func (k pick) matches(chosen []choice) bool {
	return slices.ContainsFunc(chosen, func(c choice) bool {
		return c.factor == k.factor && k.has(c.level.name)
	})
}

func (k pick) has(level string) bool {
	return slices.ContainsFunc(k.levels, func(l placed[string]) bool { return l.value == level })
}

// conditionName is such as "clients=8,size=64".
func conditionName(condition []choice) string {
	parts := make([]string, len(condition))
	for i, c := range condition {
		parts[i] = c.factor + "=" + c.level.name
	}
	return strings.Join(parts, ",")
}

// cellName is made of the levels that vary among what is compared: "docker",
// "docker host", "docker cpus=2". Where nothing varies it is the engine's.
func (p *planner) cellName(combination []choice, engine string) string {
	var parts []string
	for _, c := range combination {
		if f, _ := findFactor(p.factors, c.factor); p.varies(f) {
			parts = append(parts, c.text())
		}
	}
	if parts == nil {
		return engine
	}
	return strings.Join(parts, " ")
}

// varies reports whether a factor has several levels that are not excluded
// whatever the others are.
func (p *planner) varies(f factor) bool {
	left := 0
	for _, l := range f.levels {
		if !p.excluded([]choice{{f.name, l}}) {
			left++
		}
	}
	return left > 1
}

// text is the level as part of a cell's name. "2" or "true" would say nothing
// without the factor.
func (c choice) text() string {
	if k, ok := factorKey(c.factor); c.level.isNamed || ok && k.bare {
		return c.level.name
	}
	return c.factor + "=" + c.level.name
}

// checkNames wants every cell of a condition to have a name of its own.
func (p *planner) checkNames(cells []bench.Cell) {
	seen := map[string]bool{}
	if p.file.control.or(true) {
		seen[controlName] = true
	}
	for _, c := range cells {
		if seen[c.Name] {
			hint := "give one of them another name"
			if c.Name == controlName {
				hint = "tare uses this name for its second baseline; rename the cell, or write control: false"
			}
			p.Fail(p.placeOf(c.Name), fmt.Sprintf("two cells are called %s", yamldoc.Quote(c.Name)), hint)
			return
		}
		seen[c.Name] = true
	}
}

// placeOf is where the last cell of that name was written out, or else where
// the matrix is.
func (p *planner) placeOf(name string) yamldoc.Place {
	for _, w := range slices.Backward(p.file.cells) {
		if w.name == name {
			return w.at
		}
	}
	return p.widestFactor()
}

// native is the engine that makes plain processes.
const native = "native"

// controlName is what the second baseline of each condition is called.
const controlName = "control"

// controlOf is the baseline once more.
func controlOf(cells []bench.Cell) bench.Cell {
	i := slices.IndexFunc(cells, func(c bench.Cell) bool { return c.Baseline })
	c := cells[max(i, 0)]
	c.Name, c.Baseline, c.Control = controlName, false, true
	return c
}

// setBaseline marks the one cell of a condition with which the others are compared.
func (p *planner) setBaseline(cells []bench.Cell) {
	b := p.file.baseline
	if b.cell == "" && b.levels == nil {
		cells[defaultBaseline(cells)].Baseline = true
		return
	}
	var names, matching []string
	for i := range cells {
		names = append(names, cells[i].Name)
		if b.matches(cells[i]) {
			matching = append(matching, cells[i].Name)
			cells[i].Baseline = len(matching) == 1
		}
	}
	where := ""
	if c := cells[0].Condition; c != "" {
		where = " in condition " + c
	}
	switch {
	case len(matching) > 1:
		p.Fail(b.at, fmt.Sprintf("the baseline matches %d cells%s", len(matching), where),
			"name one of: "+strings.Join(matching, ", "))
	case len(matching) == 0:
		cells[0].Baseline = true // so that what follows has one
		what := "no cell has the levels of the baseline"
		if b.cell != "" {
			what = fmt.Sprintf("the baseline names cell %s, which does not exist", yamldoc.Quote(b.cell))
		}
		p.Fail(b.at, what+where, suggest(b.cell, "cells", names))
	}
}

// defaultBaseline is the first plain process. Where none is asked for, or only
// for what a process cannot be given, such as a memory limit, it is the first
// container.
func defaultBaseline(cells []bench.Cell) int {
	plain := func(c bench.Cell) bool {
		s := c.Spec
		asked := s.Network != "host" || !ownImage(s.Image) || len(s.Mounts) > 0 || len(s.Ports) > 0 ||
			s.Storage != "" || s.Runtime != "" || s.Snapshotter != "" || s.Limits != bench.Limits{} ||
			s.Security != bench.Security{} && s.Security != bench.Security{Seccomp: "unconfined"}
		return c.Engine == native && !asked
	}
	if i := slices.IndexFunc(cells, plain); i >= 0 {
		return i
	}
	return max(slices.IndexFunc(cells, func(c bench.Cell) bool { return c.Engine != native }), 0)
}

// ownImage reports whether a process can run what is in the image as it is: tare's
// own, or a program of this host.
func ownImage(ref string) bool {
	return ref == "" || ref == bench.AgentImage || strings.HasPrefix(ref, "host:")
}

// matches reports whether the cell is, or has the levels of, the baseline.
func (b baseline) matches(c bench.Cell) bool {
	if b.levels == nil {
		return c.Name == b.cell
	}
	return !slices.ContainsFunc(b.levels, func(k pick) bool {
		has := func(l bench.Label) bool { return l.Key == k.factor && k.has(l.Value) }
		return !slices.ContainsFunc(c.Levels, has) && !(k.factor == "engine" && k.has(c.Engine))
	})
}
