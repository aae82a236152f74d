package experiment

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/experiment/yamldoc"
)

const (
	maxLevels = 100  // of one factor
	maxCells  = 1000 // of one plan, before exclusions
)

// auto is the level of factor engine that stands for every engine found; with
// "-4" behind it, for the plain process and at most four.
const auto = "auto"

// A factor is something that varies, as it was written.
type factor struct {
	name   string
	at     yamldoc.Place
	levels []level
}

// A level is one value of a factor: what it is called and what it sets.
type level struct {
	name     string
	at       yamldoc.Place
	settings []setting
	isNamed  bool // written as a mapping with a name
}

func (f factor) levelNames() []string {
	names := make([]string, len(f.levels))
	for i, l := range f.levels {
		names[i] = l.name
	}
	return names
}

func (f factor) level(name string) (level, bool) {
	i := slices.IndexFunc(f.levels, func(l level) bool { return l.name == name })
	if i < 0 {
		return level{}, false
	}
	return f.levels[i], true
}

func findFactor(factors []factor, name string) (factor, bool) {
	i := slices.IndexFunc(factors, func(f factor) bool { return f.name == name })
	if i < 0 {
		return factor{}, false
	}
	return factors[i], true
}

// factorsKey makes a key whose value is a mapping of factors to their levels.
func factorsKey(name, doc, example string, into func(*file) *[]factor) key[file] {
	want := "a mapping of factors to lists of levels"
	return key[file]{
		name: name, doc: doc, example: example, want: want, schema: defined("factors"),
		read: func(r *reader, n yamldoc.Node, f *file) {
			if n.Kind != yamldoc.Mapping {
				r.WrongKind(n, want)
				return
			}
			for _, field := range n.Fields {
				if _, twice := findFactor(f.factors, field.Name); twice {
					r.Fail(field.At, fmt.Sprintf("%q is both a factor and a condition", field.Name),
						"keep it in factors or in conditions")
					continue
				}
				r.readKey(field, func() { *into(f) = append(*into(f), r.factor(field, factor{})) })
			}
		},
	}
}

// factor reads a factor. A single value stands for a list of one. A flag may
// name levels of the old factor that it replaces.
func (r *reader) factor(f yamldoc.Field, old factor) factor {
	out := factor{name: f.Name, at: f.At}
	if _, err := parseIdentifier(f.Name); err != nil {
		r.Fail(f.At, err.Error(), "")
	}
	items := f.Value.Items
	switch {
	case f.Value.Kind == yamldoc.Mapping:
		r.Fail(f.Value.At, "expected a list of levels, but got a mapping", "write [one, another], or - before each level")
		return out
	case f.Value.Kind == yamldoc.Scalar:
		items = []yamldoc.Node{f.Value}
	case len(items) == 0:
		r.Fail(f.At, fmt.Sprintf("factor %q has no levels", f.Name), "name at least one")
	case len(items) > maxLevels:
		r.Fail(f.At, fmt.Sprintf("factor %q has %d levels; at most %d are allowed", f.Name, len(items), maxLevels), "")
		return out
	}
	for _, item := range items {
		l, ok := old.level(item.Text)
		if !ok {
			l = r.level(f.Name, item)
		}
		if _, twice := out.level(l.name); twice && l.name != "" {
			r.Fail(l.at, fmt.Sprintf("level %s is given twice", yamldoc.Quote(l.name)), "")
			continue
		}
		out.levels = append(out.levels, l)
	}
	return out
}

// level reads one level of a factor.
func (r *reader) level(factor string, n yamldoc.Node) level {
	if n.Kind == yamldoc.Mapping {
		return r.namedLevel(n)
	}
	out := level{name: n.Text, at: n.At}
	key, known := factorKey(factor)
	switch {
	case n.Kind == yamldoc.Null:
		r.Fail(n.At, "the level is empty", "")
	case factor == "engine" && out.isAuto():
	case known:
		key.read(r, n, &out.settings)
	case slices.Contains(keyNames(plainKeys(cellKeys())), factor):
		r.Fail(n.At, fmt.Sprintf("levels of %q need names", factor), fmt.Sprintf("write {name: NAME, %s: …}", factor))
	default:
		v, _ := paramValue().read(r, n) // what is wrong with it has been noted
		out.name = wordName(v.text)
		s := paramSetting(factor, v.text, n.At)
		s.words = v.words
		out.settings = []setting{s}
	}
	if n.Kind == yamldoc.List && known {
		out.name = joinTexts(n.Items)
	}
	r.levelName(out)
	return out
}

// wordName is the name of a level that is one word of an option. The empty word,
// such as no tool, stands for the default.
func wordName(word string) string { return cmp.Or(word, "default") }

func joinTexts(items []yamldoc.Node) string {
	words := make([]string, len(items))
	for i, n := range items {
		words[i] = n.Text
	}
	return strings.Join(words, " ")
}

// namedLevel reads a level that sets several things under one name.
func (r *reader) namedLevel(n yamldoc.Node) level {
	out := level{at: n.At, isNamed: true}
	type l = level
	keys := []key[l]{required(fieldOf("name", "", "name: fast", text(), func(l *l) *string { return &l.name }))}
	for _, k := range cellKeys() {
		keys = append(keys, key[l]{name: k.name, read: func(r *reader, n yamldoc.Node, l *l) { k.read(r, n, &l.settings) }})
	}
	read, _ := object("a level", keys).read(r, n) // what is wrong with it has been noted
	out.name, out.settings = read.name, read.settings
	r.levelName(out)
	return out
}

// levelName wants a name that fits into tables.
func (r *reader) levelName(l level) {
	const most = 200
	if _, err := parseText(l.name); (l.name != "" && err != nil) || len(l.name) > most {
		r.Fail(l.at, "the level needs a short name, for tables", "write {name: NAME, …: value}")
	}
}

// A pick is a factor and some of its levels.
type pick struct {
	factor string
	at     yamldoc.Place
	levels []placed[string]
}

// An exclusion drops the combinations that match all of its picks.
type exclusion []pick

func exclusionValue() value[exclusion] { return picks(listOrOne(located(text()))) }

// picks reads a mapping of factors to levels.
func picks(v value[[]placed[string]]) value[exclusion] {
	return convert(named("a mapping of factors to levels", v), func(entries []entry[[]placed[string]]) exclusion {
		out := make(exclusion, len(entries))
		for i, e := range entries {
			out[i] = pick{e.name, e.at, e.value}
		}
		return out
	})
}

// listOrOne reads a list, or a single item in its place.
func listOrOne[T any](item value[T]) value[[]T] {
	many := listOf(item)
	s := schema{"anyOf": []any{item.schema, many.schema}}
	return value[[]T]{item.want + ", or a list", s, func(r *reader, n yamldoc.Node) ([]T, bool) {
		if n.Kind == yamldoc.List {
			return many.read(r, n)
		}
		t, ok := item.read(r, n)
		return []T{t}, ok
	}}
}

// A baseline is the name of a cell, or levels; neither where none was given.
type baseline struct {
	cell   string
	levels exclusion
	at     yamldoc.Place
}

func baselineValue() value[baseline] {
	levels := picks(convert(located(text()), func(t placed[string]) []placed[string] { return []placed[string]{t} }))
	s := schema{"anyOf": []any{schema{"type": "string"}, levels.schema}}
	want := "the name of a cell, or a mapping of factors to levels"
	return value[baseline]{want, s, func(r *reader, n yamldoc.Node) (baseline, bool) {
		switch n.Kind {
		case yamldoc.Mapping:
			p, ok := levels.read(r, n)
			if ok && len(p) == 0 {
				r.Fail(n.At, "the baseline names no level", "write {engine: native}")
				ok = false
			}
			return baseline{levels: p, at: n.At}, ok
		case yamldoc.Scalar:
			name, ok := text().read(r, n)
			return baseline{cell: name, at: n.At}, ok
		}
		r.WrongKind(n, want)
		return baseline{}, false
	}}
}

// A cell is one that was written out, beside the cross product.
type cell struct {
	name     string
	at       yamldoc.Place
	levels   []bench.Label // of factors and conditions
	settings []setting
}

// cellsKey reads cells. They may name levels of the factors read before.
func cellsKey() key[file] {
	return key[file]{
		name: "cells", doc: "Cells in addition to the cross product, each with a name. Without factors there is no cross " +
			"product.",
		example: "cells: [{name: small, engine: docker, memory: 32MiB}]",
		want:    "a list of cells", schema: schema{"type": "array", "items": defined("cell"), "minItems": 1},
		read: func(r *reader, n yamldoc.Node, f *file) {
			if n.Kind != yamldoc.List {
				r.WrongKind(n, "a list of cells")
				return
			}
			for _, item := range n.Items {
				f.cells = append(f.cells, r.cell(item, slices.Concat(f.factors, f.conditions)))
			}
		},
	}
}

func (r *reader) cell(n yamldoc.Node, factors []factor) cell {
	c := cell{at: n.At}
	if n.Kind != yamldoc.Mapping {
		r.WrongKind(n, "a cell (a mapping with a name)")
		return c
	}
	if f, ok := n.Field("name"); ok {
		c.name, _ = text().read(r, f.Value) // what is wrong with it has been noted
	} else {
		r.Fail(n.At, "the cell has no name", "write {name: NAME, …}")
	}
	for _, f := range n.Fields {
		if f.Name != "name" {
			r.readKey(f, func() { r.cellField(&c, f, factors) })
		}
	}
	return c
}

// cellField reads one key of a cell: a level of a factor by its name, a key
// of spec, or an option of the workload.
func (r *reader) cellField(c *cell, f yamldoc.Field, factors []factor) {
	factor, isFactor := findFactor(factors, f.Name)
	word := f.Value.Kind == yamldoc.Scalar
	if isFactor && word {
		name := wordName(f.Value.Text)
		c.levels = append(c.levels, bench.Label{Key: f.Name, Value: name})
		if l, ok := factor.level(name); ok {
			c.settings = append(c.settings, l.settings...)
			return
		}
	}
	if k, ok := find(plainKeys(cellKeys()), f.Name); ok {
		k.read(r, f.Value, &c.settings)
		return
	}
	if isFactor && slices.ContainsFunc(factor.levels, func(l level) bool { return l.isNamed }) {
		r.Fail(f.Value.At, fmt.Sprintf("factor %q has no level %s", f.Name, yamldoc.Quote(f.Value.Text)),
			suggest(f.Value.Text, "its levels", factor.levelNames()))
		return
	}
	v, _ := paramValue().read(r, f.Value) // what is wrong with it has been noted
	s := paramSetting(f.Name, v.text, f.Value.At)
	s.name, s.words, s.maybeSpec = f.At, v.words, true
	c.settings = append(c.settings, s)
}
