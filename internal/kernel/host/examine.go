package host

import (
	"context"
	"fmt"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/proc"
)

// A Status says what to make of a Finding.
type Status string

// The statuses, from good to bad.
const (
	Good    Status = "ok"      // as measurements want it
	Note    Status = "note"    // worth knowing; nothing to do, or nothing that can be done
	Disturb Status = "warning" // disturbs measurements, and the hint says what to do
)

// A Finding is one thing that was looked at.
type Finding struct {
	Name   string `json:"name"` // stable, such as "governor"
	Status Status `json:"status"`
	Text   string `json:"text"`           // what was found, with the numbers
	Hint   string `json:"hint,omitempty"` // what to do about it; always there for a warning
}

// An Examination says what to look at. Its zero value is the machine as it is
// at this instant.
type Examination struct {
	Root  string          // file system to look at; "" = "/"
	Facts bench.HostFacts // as Facts returned them; zero = they are read
	Dirs  []string        // directories whose file systems will be written to
	// Watch is how long to look for what only shows over time, such as time
	// taken by the hypervisor; 0 = it is not looked for.
	Watch time.Duration
}

// Examine looks for everything that disturbs measurements, and reports what is
// well too. What does not exist on this machine has no Finding. It returns
// early, with what is known, when ctx ends.
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
		m.memory, m.swap, m.hugePages, m.numa,
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

// Checks returns what disturbs measurements as warnings for the run: those
// findings of Examine that are worth acting on.
func Checks(ctx context.Context, x Examination) []bench.Warning {
	return Warnings(Examine(ctx, x))
}

// Warnings keeps the findings that are worth acting on. Their codes are the
// findings' names after "host-".
func Warnings(findings []Finding) []bench.Warning {
	var warnings []bench.Warning
	for _, f := range findings {
		if f.Status == Disturb {
			warnings = append(warnings, bench.Warning{Code: "host-" + f.Name, Text: f.Text, Hint: f.Hint})
		}
	}
	return warnings
}

// A machine is what the checks look at.
type machine struct {
	tree
	root  string
	facts bench.HostFacts
	// first and last were taken at the ends of the time watched.
	first, last proc.Snapshot
	since       string // what the time between them is called; empty = nothing was watched
}

// watch takes the snapshots.
func (m *machine) watch(ctx context.Context, d time.Duration) {
	m.last = nothing()
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

// during returns how much a count grew in the time that was watched.
func (m *machine) during(f proc.Field) float64 { return m.last[f] - m.first[f] }

func good(name, format string, args ...any) Finding {
	return Finding{Name: name, Status: Good, Text: fmt.Sprintf(format, args...)}
}

func note(name, hint, format string, args ...any) Finding {
	return Finding{Name: name, Status: Note, Text: fmt.Sprintf(format, args...), Hint: hint}
}

func disturb(name, hint, format string, args ...any) Finding {
	return Finding{Name: name, Status: Disturb, Text: fmt.Sprintf(format, args...), Hint: hint}
}
