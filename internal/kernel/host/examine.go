package host

import (
	"context"
	"fmt"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/proc"
)

// A Status says how serious a Finding is.
type Status string

// The statuses, from good to bad.
const (
	Good    Status = "ok"      // good for measurements
	Note    Status = "note"    // worth knowing; there is nothing to do, or nothing that can be done
	Disturb Status = "warning" // disturbs measurements; the hint says what to do
)

// A Finding is the result of one check.
type Finding struct {
	Name   string `json:"name"` // stable, such as "governor"
	Status Status `json:"status"`
	Text   string `json:"text"`           // what was found, with the numbers
	Hint   string `json:"hint,omitempty"` // what to do about it; a warning always has one
}

// An Examination says what to check. Its zero value means this machine at this moment.
type Examination struct {
	Root  string          // root of the file system to read; "" = "/"
	Facts bench.HostFacts // as Facts returned them; zero = read them
	Dirs  []string        // directories that the run will write to
	// Watch is how long to watch for things that show only over time, such as CPU steal; 0 = do not
	// watch.
	Watch time.Duration
}

// Examine checks for everything that disturbs measurements, and also reports what is good. Things
// that do not exist on this machine have no Finding. When ctx ends, it returns early with what it
// knows.
func Examine(ctx context.Context, x Examination) []Finding {
	if x.Root == "" {
		x.Root = "/"
	}
	if x.Facts == (bench.HostFacts{}) {
		x.Facts = Facts(x.Root)
	}
	m := &machine{tree: tree(x.Root), root: x.Root, facts: x.Facts}
	m.watch(ctx, x.Watch)
	checks := []func() Finding{
		m.privileges, m.container, m.cgroups, m.cpus, m.virtualization, m.steal,
		m.load, m.cpuPressure, m.memoryPressure, m.ioPressure,
		m.governor, m.boost, m.smt, m.throttling, m.battery, m.clock,
		m.memory, m.swap, m.hugePages, m.numa, m.disks, m.mitigations, m.security,
	}
	var findings []Finding
	for _, check := range checks {
		if f := check(); f.Name != "" {
			findings = append(findings, f)
		}
	}
	for _, dir := range x.Dirs {
		findings = append(findings, space(dir))
	}
	return findings
}

// Checks returns the findings of Examine that need action, as warnings for the run.
func Checks(ctx context.Context, x Examination) []bench.Warning {
	return Warnings(Examine(ctx, x))
}

// Warnings turns the findings that need action into warnings. Their codes are "host-" and the
// findings' names.
func Warnings(findings []Finding) []bench.Warning {
	var warnings []bench.Warning
	for _, f := range findings {
		if f.Status == Disturb {
			warnings = append(warnings, bench.Warning{Code: "host-" + f.Name, Text: f.Text, Hint: f.Hint})
		}
	}
	return warnings
}

// A machine is everything that the checks read.
type machine struct {
	tree
	root  string
	facts bench.HostFacts
	// first and last are from the beginning and the end of the watched time.
	first, last proc.Snapshot
	since       string // name of the time between them; empty = nothing was watched
}

// watch takes the snapshots.
func (m *machine) watch(ctx context.Context, d time.Duration) {
	m.last = unknownSnapshot()
	s, err := proc.Open(m.root, proc.Stat, proc.Meminfo, proc.Loadavg)
	if err != nil {
		return
	}
	defer func() { _ = s.Close() }() // nothing was written
	s.Read(&m.last)
	if d <= 0 {
		return
	}
	m.first = m.last
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	s.Read(&m.last)
	m.since = fmt.Sprintf("in the last %v", d)
}

// delta returns how much a count grew in the watched time.
func (m *machine) delta(f proc.Field) float64 { return m.last[f] - m.first[f] }

func good(name, format string, args ...any) Finding {
	return Finding{Name: name, Status: Good, Text: fmt.Sprintf(format, args...)}
}

func note(name, hint, format string, args ...any) Finding {
	return Finding{Name: name, Status: Note, Text: fmt.Sprintf(format, args...), Hint: hint}
}

func disturb(name, hint, format string, args ...any) Finding {
	return Finding{Name: name, Status: Disturb, Text: fmt.Sprintf(format, args...), Hint: hint}
}
