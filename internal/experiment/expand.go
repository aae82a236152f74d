package experiment

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/experiment/yamldoc"
)

// engineNames are the names that a cell's engine may have.
func (p *planner) engineNames() []string {
	names := slices.Clone(p.known.Engines)
	for _, i := range p.file.engines {
		if !slices.Contains(names, i.Name) {
			names = append(names, i.Name)
		}
	}
	return names
}

// expandFactors replaces auto by the engines found, and adds factor engine
// where nothing names an engine.
func (p *planner) expandFactors() {
	p.factors, p.conditions = slices.Clone(p.file.factors), slices.Clone(p.file.conditions)
	if p.hasMatrix() && !setsEngine(p.factors) && !setsEngine(p.conditions) {
		engines := factor{name: "engine", at: p.file.workload.at, levels: []level{{name: auto, at: p.file.workload.at}}}
		p.factors = slices.Insert(p.factors, 0, engines)
	}
	for _, factors := range [][]factor{p.factors, p.conditions} {
		for i, f := range factors {
			if f.name == "engine" {
				factors[i].levels = p.withNative(p.expandAuto(f.levels))
			}
		}
	}
	p.checkConflicts()
}

// hasMatrix reports whether there is a cross product; cells alone have none.
func (p *planner) hasMatrix() bool { return len(p.file.factors) > 0 || len(p.file.cells) == 0 }

func setsEngine(factors []factor) bool {
	return slices.ContainsFunc(factors, func(f factor) bool {
		return f.name == "engine" || slices.ContainsFunc(f.levels, func(l level) bool {
			return slices.ContainsFunc(l.settings, func(s setting) bool { return s.path == "engine" })
		})
	})
}

// withNative adds the plain process where a level of the network asks for it.
func (p *planner) withNative(engines []level) []level {
	f, ok := findFactor(slices.Concat(p.factors, p.conditions), "network")
	has := func(l level) bool { return l.name == native }
	if !ok || !slices.ContainsFunc(f.levels, level.isNative) || slices.ContainsFunc(engines, has) {
		return engines
	}
	return slices.Insert(engines, 0, level{name: native, at: f.at, settings: []setting{engineSetting(native, f.at)}})
}

// isAuto reports whether the level stands for engines found: every one, or with
// "auto-3" the plain process and at most three others.
func (l level) isAuto() bool {
	_, ok := l.autoLimit()
	return ok
}

// autoLimit returns how many engines beside native the level stands for.
func (l level) autoLimit() (most int, ok bool) {
	if l.isNamed {
		return 0, false
	}
	return autoLimit(l.name)
}

func autoLimit(name string) (most int, ok bool) {
	if name == auto {
		return math.MaxInt, true
	}
	digit, ok := strings.CutPrefix(name, auto+"-")
	if !ok || len(digit) != 1 || digit < "1" || digit > "9" {
		return 0, false
	}
	return int(digit[0] - '0'), true
}

// choose returns which of the engines that were found a level of auto stands for,
// in the order in which they are shown, and those that its limit leaves out.
func (p *planner) choose(found []string, l level) (in, out []string) {
	most, _ := l.autoLimit()
	var chosen []string
	for _, name := range p.known.Rank {
		if len(chosen) < most && slices.Contains(found, name) && !slices.Contains(chosen, p.known.Behind[name]) {
			chosen = append(chosen, name)
		}
	}
	for _, name := range found {
		if name == native || most == math.MaxInt || slices.Contains(chosen, name) {
			in = append(in, name)
		} else {
			out = append(out, name)
		}
	}
	return in, out
}

func (p *planner) expandAuto(levels []level) []level {
	var out []level
	add := func(l level) {
		if !slices.ContainsFunc(out, func(o level) bool { return o.name == l.name }) {
			out = append(out, l)
		}
	}
	for _, l := range levels {
		if !l.isAuto() {
			add(l)
			continue
		}
		found := p.known.Found()
		if len(found) == 0 {
			p.Fail(l.at, "no engine was found on this machine", "`tare doctor` shows why; or name engines instead of auto")
		}
		in, left := p.choose(found, l)
		p.leftOut = append(p.leftOut, left...)
		for _, name := range in {
			add(level{name: name, at: l.at, settings: []setting{engineSetting(name, l.at)}})
		}
	}
	return out
}

// checkConflicts refuses two factors that set the same thing: their cross
// product would name cells for one and run the other.
func (p *planner) checkConflicts() {
	owner := map[string]string{}
	for _, f := range slices.Concat(p.factors, p.conditions) {
		for _, l := range f.levels {
			for _, s := range l.settings {
				if o, ok := owner[s.path]; ok && o != f.name {
					p.Fail(s.at, fmt.Sprintf("factors %q and %q both set %s", o, f.name, strings.TrimPrefix(s.path, "params.")),
						"set it in only one factor")
					return
				}
				owner[s.path] = f.name
			}
		}
	}
}

// checkSettings checks every engine and every option of the workload that is named.
func (p *planner) checkSettings() {
	p.checkSetting(p.file.settings)
	for _, f := range slices.Concat(p.factors, p.conditions) {
		if p.isUnknownFactor(f) {
			continue
		}
		for _, l := range f.levels {
			p.checkSetting(l.settings)
		}
	}
	for _, c := range p.file.cells {
		p.checkSetting(c.settings)
	}
}

// isUnknownFactor notes a factor with plain levels that nothing knows.
func (p *planner) isUnknownFactor(f factor) bool {
	if _, ok := factorKey(f.name); ok || p.workload == nil {
		return false
	}
	if _, ok := p.param(f.name); ok || !slices.ContainsFunc(f.levels, func(l level) bool { return !l.isNamed }) {
		return false
	}
	known := append(factorNames(), p.paramNames()...)
	hint := suggest(f.name, "factors", known)
	if _, near := Nearest(f.name, known); !near && f.at.Flag == "" {
		hint += "; levels of your own factors are mappings: {name: NAME, …}"
	}
	p.Fail(f.at, fmt.Sprintf("unknown factor %s", yamldoc.Quote(f.name)), hint)
	return true
}

func (p *planner) checkSetting(settings []setting) {
	for _, s := range settings {
		if s.path == "engine" {
			if names := p.engineNames(); !slices.Contains(names, s.text) {
				p.Fail(s.at, fmt.Sprintf("unknown engine %s", yamldoc.Quote(s.text)), suggest(s.text, "engines", names))
			}
		}
		if name, ok := s.option(); ok && p.workload != nil {
			p.checkOption(name, s)
		}
	}
}

// checkOption checks one option of the workload, by the workload's own rule.
func (p *planner) checkOption(name string, s setting) {
	param, ok := p.param(name)
	if s.name == (yamldoc.Place{}) {
		s.name = s.at // a flag
	}
	switch {
	case !ok && s.maybeSpec:
		known := append(keyNames(plainKeys(cellKeys())), p.paramNames()...)
		p.Fail(s.name, fmt.Sprintf("unknown key %s", yamldoc.Quote(name)), suggest(name, "keys here", known))
	case !ok:
		hint := suggestListed(name, "its options", p.paramNames(), "tare params "+p.workload.Name())
		if len(p.workload.Params()) == 0 {
			hint = "it has no options"
		}
		p.Fail(s.name, fmt.Sprintf("workload %q has no option %s", p.workload.Name(), yamldoc.Quote(name)), hint)
	case param.Valid != nil:
		p.checkValue(param, s)
	}
}

func (p *planner) checkValue(param bench.Param, s setting) {
	err := param.Valid(s.text)
	if err == nil {
		return
	}
	at, message := s.placeOf(err), err.Error()
	if at.Flag == "" { // which names the option itself
		message = param.Name + ": " + message
	}
	p.Fail(at, message, param.Doc)
}

// placeOf is where what err is about was written.
func (s setting) placeOf(err error) yamldoc.Place {
	var word *bench.ListItemError
	if errors.As(err, &word) && word.Word < len(s.words) {
		return s.words[word.Word]
	}
	return s.at
}

func (p *planner) param(name string) (bench.Param, bool) {
	for _, param := range p.workload.Params() {
		if param.Name == name {
			return param, true
		}
	}
	return bench.Param{}, false
}

func (p *planner) paramNames() []string {
	var names []string
	for _, param := range p.workload.Params() {
		names = append(names, param.Name)
	}
	return names
}

// checkPicks checks the factors and levels that exclude and baseline name.
func (p *planner) checkPicks() {
	all := slices.Concat(p.factors, p.conditions)
	for _, e := range append(slices.Clone(p.file.exclude), p.file.baseline.levels) {
		for _, pick := range e {
			f, ok := findFactor(all, pick.factor)
			if !ok {
				p.unknownPick(pick, all)
				continue
			}
			for _, l := range pick.levels {
				if !p.hasLevel(f, l.value) {
					p.Fail(l.at, fmt.Sprintf("factor %q has no level %s", f.name, yamldoc.Quote(l.value)),
						suggest(l.value, "its levels", f.levelNames()))
				}
			}
		}
	}
}

// unknownPick notes an unknown factor. If there are only written-out cells, they have
// an engine without a factor of that name.
func (p *planner) unknownPick(k pick, all []factor) {
	if k.factor == "engine" {
		return
	}
	var names []string
	for _, f := range all {
		names = append(names, f.name)
	}
	p.Fail(k.at, fmt.Sprintf("there is no factor %s", yamldoc.Quote(k.factor)), suggest(k.factor, "factors here", names))
}

// hasLevel reports whether a file may name the level: one that is there, one
// that a flag took away, an engine that is not on this machine, or a cell's own.
func (p *planner) hasLevel(f factor, name string) bool {
	if _, ok := f.level(name); ok || f.at.Flag != "" {
		return true
	}
	for _, c := range p.file.cells {
		if slices.Contains(c.levels, bench.Label{Key: f.name, Value: name}) {
			return true
		}
	}
	written, _ := findFactor(slices.Concat(p.file.factors, p.file.conditions), f.name)
	usesAuto := len(written.levels) == 0 || slices.ContainsFunc(written.levels, level.isAuto)
	return f.name == "engine" && usesAuto && slices.Contains(p.engineNames(), name)
}
