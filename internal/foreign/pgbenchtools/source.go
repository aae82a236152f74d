// Package pgbenchtools reads results of pgbench-tools, which is pgbent since 2025: its tables as CSV,
// and its results tree. What its scripts are known to get wrong is corrected, and a note says so.
package pgbenchtools

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/foreign"
	"github.com/tare-bench/tare/internal/foreign/pgbench"
)

// Source reads what pgbench-tools keeps.
func Source() foreign.Source {
	return foreign.Source{Name: "pgbench-tools", Doc: "(its results tree, and its tables as CSV)", Read: read}
}

// A key names a test: its number, which each server counts for itself.
type key struct {
	server string
	test   int
}

// A results is everything that was found.
type results struct {
	tests  map[key]*test
	sets   map[key]testset   // by server and set
	texts  map[string]string // one copy of each that many tests have
	values int               // of series
	found  time.Time
}

// A testset is a row of the table testset.
type testset struct{ info, category string }

func read(in *foreign.Input) ([]foreign.Set, error) {
	r := &results{tests: map[key]*test{}, sets: map[key]testset{}, texts: map[string]string{}, found: in.Written()}
	dirs := map[string][]foreign.File{}
	for _, f := range in.Files {
		if f.Base == resultsFile {
			dirs[f.Dir] = nil
		}
	}
	var tables []foreign.File
	for _, f := range in.Files {
		if _, ok := dirs[f.Dir]; ok {
			dirs[f.Dir] = append(dirs[f.Dir], f)
			continue
		}
		tables = append(tables, f)
	}
	if err := r.readTables(tables); err != nil {
		return nil, err
	}
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		if err := r.readTest(dir, dirs[dir]); err != nil {
			return nil, err
		}
	}
	return r.newSets()
}

// test returns the test of a key, a new one if there is none.
func (r *results) test(k key) *test {
	t := r.tests[k]
	if t == nil {
		t = &test{key: k, settings: map[string]string{}, series: map[string][]float64{}}
		r.tests[k] = t
	}
	return t
}

// intern returns one copy of texts that many tests have.
func (r *results) intern(s string) string {
	if known, ok := r.texts[s]; ok {
		return known
	}
	s = strings.Clone(s)
	r.texts[s] = s
	return s
}

// newSets makes a set of the tests of each server and testset, and another one of those of them that
// made tables.
func (r *results) newSets() ([]foreign.Set, error) {
	groups := map[string]*group{}
	for _, k := range slices.SortedFunc(maps.Keys(r.tests), compareKeys) {
		t := r.tests[k]
		if t.row == nil && t.tree == nil {
			continue // only its statistics
		}
		name := fmt.Sprintf("%s\x00%s\x00%v", k.server, t.set(), t.isInit())
		if groups[name] == nil {
			groups[name] = &group{set: r.newSet(t)}
		}
		if err := groups[name].add(t); err != nil {
			return nil, err
		}
	}
	var all []foreign.Set
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		if g := groups[name]; len(g.set.Trials) > 0 {
			all = append(all, g.finish())
		}
	}
	return all, nil
}

func compareKeys(a, b key) int {
	return cmp.Or(cmp.Compare(a.server, b.server), cmp.Compare(a.test, b.test))
}

// newSet makes the set that a test belongs to.
func (r *results) newSet(t *test) foreign.Set {
	s := foreign.Set{
		Workload: pgbench.Workload, Subject: pgbench.Subject, Program: "pgbench-tools", Conditions: pgbench.Conditions(),
		Metrics: pgbench.Metrics(), Found: r.found, Host: bench.HostFacts{Hostname: t.key.server},
		Labels: []bench.Label{{Key: "server", Value: t.key.server}},
	}
	if t.isInit() {
		s.Conditions, s.Metrics = []string{"scale"}, pgbench.InitMetrics()
		s.Labels = append(s.Labels, bench.Label{Key: "kind", Value: "init"})
	}
	if row := t.row; row != nil {
		s.Host.CPU, s.Host.OS, s.Host.Memory = row.cpu, row.os, row.memory
	}
	if t.set() == "" {
		return s
	}
	s.Labels = append(s.Labels, bench.Label{Key: "set", Value: t.set()})
	number, _ := strconv.Atoi(t.set())
	known := r.sets[key{t.key.server, number}]
	if s.Doc = cmp.Or(known.info, t.row.info); s.Doc != "" {
		s.Labels = append(s.Labels, bench.Label{Key: "info", Value: s.Doc})
	}
	if known.category != "" {
		s.Labels = append(s.Labels, bench.Label{Key: "category", Value: known.category})
	}
	return s
}

// A group is a set while it is made.
type group struct {
	set   foreign.Set
	tests []*test
	found corrections
}

// add makes a trial of a test, unless it is of another program than pgbench.
func (g *group) add(t *test) error {
	if t.isOther() {
		g.found.other++
		return nil
	}
	trial, err := t.trial(&g.found)
	if err != nil {
		return err
	}
	g.set.Version = cmp.Or(g.set.Version, t.version())
	g.set.Trials = append(g.set.Trials, trial)
	g.tests = append(g.tests, t)
	return nil
}

// finish adds what only all tests together tell.
func (g *group) finish() foreign.Set {
	g.addSettings()
	g.set.Notes = g.found.notes()
	return g.set
}

// addSettings gives all trials the settings that the server had been given. Those that changed from
// test to test become conditions.
func (g *group) addSettings() {
	names := map[string]bool{}
	for _, t := range g.tests {
		for name := range t.settings {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		for i, t := range g.tests {
			value, ok := t.settings[name]
			switch {
			case !ok && len(t.settings) == 0:
				value = foreign.Unknown
			case !ok:
				value = "default"
			}
			g.set.Trials[i].Levels = append(g.set.Trials[i].Levels, bench.Label{Key: name, Value: value})
		}
	}
}

// where is the place of a test's directory: .../SERVER/TEST.
func where(dir string) (key, error) {
	number, err := strconv.Atoi(filepath.Base(dir))
	if err != nil {
		return key{}, foreign.Errorf(filepath.Join(dir, resultsFile), 0, "name the directory results, one of a server below "+
			"it, or one of a test", "the directory %q is not the number of a test", filepath.Base(dir))
	}
	server := filepath.Base(filepath.Dir(dir))
	if server == "." || server == "/" || server == "results" {
		server = foreign.Unknown
	}
	return key{server, number}, nil
}
