// Package gobench reads what go test -bench printed, and everything else in the Go benchmark format. A file
// becomes a run, each benchmark in it a condition, and each result a trial.
package gobench

import (
	"bufio"
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/perf/benchfmt"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/foreign"
)

// Source reads the Go benchmark format.
func Source() foreign.Source {
	return foreign.Source{Name: "gobench", Doc: "(what go test -bench printed)", Read: read}
}

const (
	hint     = "give what go test -bench printed"
	lineHint = "remove the line, or print nothing in benchmarks"
)

// The levels of a result, beside what its file says in lines such as "goos: linux".
const (
	benchmark = "benchmark"
	procs     = "procs" // GOMAXPROCS
)

func read(in *foreign.Input) ([]foreign.Set, error) {
	return in.Each("result of a benchmark", hint, readFile)
}

func readFile(f *foreign.File) ([]foreign.Set, error) {
	text, err := f.Whole()
	if err != nil {
		return nil, err
	}
	s := foreign.Set{Subject: "code", Program: "go test -bench", Conditions: []string{benchmark}}
	units := units{}
	in := benchfmt.NewReader(bytes.NewReader(text), f.Name)
	for in.Scan() {
		switch r := in.Result().(type) {
		case *benchfmt.SyntaxError:
			return nil, foreign.Errorf(f.Name, r.Line, lineHint, "%s", r.Msg)
		case *benchfmt.Result:
			if len(s.Trials) == 0 {
				s.Host = bench.HostFacts{CPU: bench.Reason(r.GetConfig("cpu")), Arch: bench.Reason(r.GetConfig("goarch"))}
			}
			s.Trials = append(s.Trials, trial(r, units))
		}
		if len(s.Trials) > foreign.MaxTrials || len(units) > maxUnits {
			return nil, foreign.Errorf(f.Name, 0, "import a part of it at a time", "it has more than %d results or %d units",
				foreign.MaxTrials, maxUnits)
		}
	}
	if in.Err() != nil {
		return nil, tooLong(f.Name, text)
	}
	s.Trials = append(s.Trials, failures(text, f.Name)...)
	if len(s.Trials) == 0 {
		return nil, nil
	}
	nameOne(s.Trials)
	s.Metrics = units.metrics(in.Units())
	return []foreign.Set{s}, nil
}

// tooLong is the error about the first line that the reader of the format does not take.
func tooLong(file string, text []byte) error {
	line := 0
	for one := range bytes.Lines(text) {
		if line++; len(one) >= bufio.MaxScanTokenSize {
			break
		}
	}
	return foreign.Errorf(file, line, hint, "the line has more than %d bytes", bufio.MaxScanTokenSize)
}

// trial makes a trial of a result.
func trial(r *benchfmt.Result, units units) foreign.Trial {
	file, line := r.Pos()
	t := foreign.Trial{Where: fmt.Sprintf("%s:%d", file, line), Levels: named(string(r.Name))}
	for _, c := range r.Config {
		if c.Key != benchmark && c.Key != procs {
			t.Levels = append(t.Levels, foreign.Label(c.Key, string(c.Value)))
		}
	}
	for _, v := range r.Values {
		units.add(v.Unit, v.Value)
		t.Set(v.Unit, v.Value)
	}
	if each, ok := r.Value(timeUnit); ok && r.Iters > 0 {
		t.Elapsed = time.Duration(min(max(each*float64(r.Iters), 0), 1e8) * float64(time.Second))
	}
	return t
}

// named are the levels that a name says: the benchmark and, if it is there, GOMAXPROCS behind it.
func named(name string) []bench.Label {
	_, parts := benchfmt.Name(name).Parts()
	n := len(parts)
	if n == 0 || parts[n-1][0] != '-' {
		return []bench.Label{foreign.Label(benchmark, name)}
	}
	count := string(parts[n-1])
	return []bench.Label{
		foreign.Label(benchmark, strings.TrimSuffix(name, count)), foreign.Label(procs, strings.TrimPrefix(count, "-")),
	}
}

// nameOne adds GOMAXPROCS where it is missing and other results have it: Go does not write it if it is 1.
func nameOne(all []foreign.Trial) {
	hasProcs := func(t foreign.Trial) bool {
		return slices.ContainsFunc(t.Levels, func(l bench.Label) bool { return l.Key == procs })
	}
	if !slices.ContainsFunc(all, hasProcs) {
		return
	}
	for i := range all {
		if !hasProcs(all[i]) {
			all[i].Levels = append(all[i].Levels, bench.Label{Key: procs, Value: "1"})
		}
	}
}

// failed begins the line of a benchmark that failed.
const failed = "--- FAIL: Benchmark"

// failures makes a trial of each benchmark that failed. Its reason is the line below, if that is indented.
func failures(text []byte, file string) (all []foreign.Trial) {
	line, begun := 0, false
	for one := range bytes.Lines(text) {
		line++
		name, ok := bytes.CutPrefix(one, []byte(failed))
		switch {
		case ok && len(all) < foreign.MaxTrials:
			name, _, _ = bytes.Cut(bytes.TrimSpace(name), []byte(" "))
			all = append(all, foreign.Trial{
				Where: fmt.Sprintf("%s:%d", file, line), Levels: named(string(name)), Failed: "the benchmark failed",
			})
		case begun && one[0] == ' ' && len(bytes.TrimSpace(one)) > 0:
			all[len(all)-1].Failed = bench.Reason(string(one))
		}
		begun = ok && len(all) > 0
	}
	return all
}

// timeUnit is the unit of the time of one operation.
const timeUnit = "sec/op"

// maxUnits is how many units a file can have.
const maxUnits = 256

// units are those that were seen, and whether one had a value that is not above zero.
type units map[string]bool

func (u units) add(unit string, value float64) { u[unit] = u[unit] || !(value > 0) }

// metrics are one for each unit, which is its name. The time of an operation decides; without it, all do.
func (u units) metrics(told benchfmt.UnitMetadataMap) (all []bench.Metric) {
	_, timed := u[timeUnit]
	names := make([]string, 0, len(u))
	for name := range u {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if (a == timeUnit) != (b == timeUnit) {
			if a == timeUnit {
				return -1
			}
			return 1
		}
		return strings.Compare(a, b)
	})
	for _, name := range names {
		m := describe(name)
		m.Role, m.Scale = bench.Detail, bench.Ratio
		if name == timeUnit || !timed {
			m.Role = bench.Primary
		}
		if u[name] || m.Unit == "1" || m.Unit == "B" {
			m.Scale = bench.Difference
		}
		switch told.GetBetter(name) { // as benchstat has it
		case 1:
			m.Better = bench.Higher
		case -1:
			m.Better = bench.Lower
		}
		all = append(all, m)
	}
	return all
}

// describe says what is known of a unit. Go's own have names for people; of others, the unit says in what they are.
func describe(name string) bench.Metric {
	m := bench.Metric{
		Name: name, Title: bench.Reason(name), Unit: "1", Better: bench.Neither, Doc: "As the benchmark reported it.",
	}
	switch name {
	case timeUnit:
		m.Title, m.Doc = "time per operation", "Mean time of one operation."
	case "B/op":
		m.Title, m.Doc = "memory per operation", "Bytes that one operation allocated on the heap."
	case "allocs/op":
		m.Title, m.Doc = "allocations per operation", "Allocations on the heap by one operation."
	case "B/s":
		m.Title, m.Doc = "bytes per second", "Bytes that operations processed, per second."
	}
	base, per, _ := strings.Cut(name, "/")
	if i := strings.LastIndex(base, "-"); i >= 0 { // as in p99-sec/op
		base = base[i+1:]
	}
	switch {
	case base == "B" && (per == "s" || per == "sec"):
		m.Unit = "B/s"
	case per == "s" || per == "sec":
		m.Unit = "1/s"
	case base == "sec":
		m.Unit = "s"
	case base == "B":
		m.Unit = "B"
	}
	return m
}
