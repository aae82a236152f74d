package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/host"
	"github.com/tare-bench/tare/internal/party"
	"github.com/tare-bench/tare/internal/syscalls"
	"github.com/tare-bench/tare/internal/unit"
)

// countCalls begins to count system calls, where the plan asks for it, until the
// machine is closed, and returns what the run has to say about it. That they
// cannot be counted is no failure of the run.
func (m *machine) countCalls(p *planned) []bench.Warning {
	if !p.plan.Syscalls {
		return nil
	}
	err := countsInside(p.workload)
	if err == nil {
		m.calls, err = syscalls.Open()
	}
	if err != nil {
		return []bench.Warning{{
			Code: "syscalls-not-counted",
			Text: "system calls were not counted: " + err.Error(),
		}}
	}
	return []bench.Warning{{
		Code: "syscalls-counted",
		Text: "system calls were counted: " + dearer(m.calls),
		Hint: "leave --syscalls out where the times themselves matter",
	}}
}

// dearer says what counting costs.
func dearer(c *syscalls.Counter) string {
	return fmt.Sprintf("each of this machine takes about %s longer meanwhile", unit.FormatDuration(c.Cost()))
}

// countsInside refuses a workload whose containers nobody looks into.
func countsInside(w bench.Workload) error {
	if slices.ContainsFunc(w.Metrics(), func(m bench.Metric) bool { return strings.HasSuffix(m.Name, party.SystemCalls) }) {
		return nil
	}
	return fmt.Errorf("%w: workload %s does not look at what its containers do", bench.ErrUnsupported, w.Name())
}

// systemCalls is what a run counts them with; nil where it does not.
func (m machine) systemCalls() func(pid int) float64 {
	if m.calls == nil {
		return nil
	}
	return m.calls.Count
}

// callsFinding says whether system calls can be counted here.
func callsFinding() host.Finding {
	f := host.Finding{Name: "syscalls", Status: host.Good}
	c, err := syscalls.Open()
	if err == nil {
		f.Text = "--syscalls can count them: " + dearer(c)
		err = c.Close()
	}
	if err != nil {
		f.Status, f.Text = host.Note, "--syscalls cannot count them: "+err.Error()
	}
	return f
}

// stopCalls ends the counting.
func (m machine) stopCalls() error {
	if m.calls == nil {
		return nil
	}
	return m.calls.Close()
}
