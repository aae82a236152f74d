// Package hyperfine reads the JSON that hyperfine exports. Each command becomes a run of its own:
// hyperfine measures one command after the other.
package hyperfine

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/foreign"
)

// Source reads what hyperfine writes with --export-json.
func Source() foreign.Source {
	return foreign.Source{Name: "hyperfine", Doc: "(what it wrote with --export-json)", Read: read}
}

const hint = "give a file that hyperfine wrote with --export-json"

// output is the part of the JSON that is read.
type output struct {
	Results []result `json:"results"`
}

// A result is what is told of one command. Its user and system times are means of all runs, so they are not
// read.
type result struct {
	Command    string            `json:"command"`
	Times      []float64         `json:"times"`             // seconds
	Memory     []float64         `json:"memory_usage_byte"` // of each run, in newer versions
	ExitCodes  []*int            `json:"exit_codes"`        // nil = ended by a signal
	Parameters map[string]string `json:"parameters"`
}

func read(in *foreign.Input) ([]foreign.Set, error) {
	return in.Each("result of hyperfine", hint, readFile)
}

func readFile(f *foreign.File) ([]foreign.Set, error) {
	documents, err := f.Documents(hint)
	if err != nil {
		return nil, err
	}
	var sets []foreign.Set
	trials := 0
	for _, d := range documents {
		var o output
		if err := d.Read(&o); err != nil {
			return nil, err
		}
		for _, r := range o.Results {
			if trials += len(r.Times); trials > foreign.MaxTrials {
				return nil, d.Errorf("it has more than %d times", foreign.MaxTrials)
			}
			if err := r.check(); err != nil {
				return nil, d.Errorf("command %.80q: %w", r.Command, err)
			}
			sets = append(sets, r.set(fmt.Sprintf("%s:%d", d.File, d.Line)))
		}
	}
	return sets, nil
}

// longest is the longest time that is believed, in seconds: three years.
const longest = 1e8

// check says what is wrong with a result.
func (r *result) check() error {
	switch n := len(r.Times); {
	case n == 0:
		return fmt.Errorf(`it has no "times"`)
	case r.ExitCodes != nil && len(r.ExitCodes) != n:
		return fmt.Errorf("it has %d times and %d exit codes", n, len(r.ExitCodes))
	case r.Memory != nil && len(r.Memory) != n:
		return fmt.Errorf("it has %d times and %d numbers of bytes", n, len(r.Memory))
	}
	if i := slices.IndexFunc(r.Times, func(v float64) bool { return v < 0 || v > longest }); i >= 0 {
		return fmt.Errorf("%v is no time", r.Times[i])
	}
	return nil
}

// set makes the set of a command. Its parameters are labels, too.
func (r *result) set(where string) foreign.Set {
	s := foreign.Set{
		Subject: "command", Program: "hyperfine", Metrics: metrics(),
		Labels: []bench.Label{foreign.Label(foreign.LabelVariant, r.Command)},
	}
	for _, name := range slices.Sorted(maps.Keys(r.Parameters)) {
		if name != foreign.LabelVariant && name != foreign.LabelFile {
			s.Labels = append(s.Labels, foreign.Label(name, r.Parameters[name]))
		}
	}
	for i, v := range r.Times {
		t := foreign.Trial{Where: where, Elapsed: time.Duration(v * float64(time.Second))}
		if r.ExitCodes != nil {
			t.Failed = failure(r.ExitCodes[i])
		}
		t.Set("time", v)
		if r.Memory != nil && r.Memory[i] > 0 {
			t.Set("memory", r.Memory[i])
		}
		s.Trials = append(s.Trials, t)
	}
	return s
}

// failure says why a command failed; empty = it did not.
func failure(code *int) string {
	switch {
	case code == nil:
		return "the command was ended by a signal"
	case *code != 0:
		return fmt.Sprintf("the command ended with exit code %d", *code)
	}
	return ""
}

func metrics() []bench.Metric {
	return []bench.Metric{
		{
			Name: "time", Title: "time", Unit: "s", Better: bench.Lower, Role: bench.Primary, Scale: bench.Ratio,
			Doc: "From the start of the command to its end, without the mean time of an empty shell if hyperfine started the " +
				"command in one.",
		},
		{
			Name: "memory", Title: "memory", Unit: "B", Better: bench.Lower, Role: bench.Detail, Scale: bench.Ratio,
			Doc: "Largest resident memory of the command.",
		},
	}
}
