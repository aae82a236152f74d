package app

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/host"
	"github.com/tare-bench/tare/internal/kernel/syscalls"
	"github.com/tare-bench/tare/internal/supervise"
	"github.com/tare-bench/tare/internal/text/unit"
)

// countCalls begins to count system calls, where the plan asks for it, until the
// machine is closed, and returns what the run has to say about it. That they
// cannot be counted is no failure of the run.
func (m *machine) countCalls(p *Planned) []bench.Warning {
	if !p.Plan.Syscalls {
		return nil
	}
	err := countsInside(p)
	if err == nil {
		m.calls, err = syscalls.Open()
	}
	if err != nil {
		return []bench.Warning{{
			Code: codeNotCounted,
			Text: "system calls were not counted: " + err.Error(),
		}}
	}
	return []bench.Warning{{
		Code: codeCounted,
		Text: "system calls were counted: " + dearer(m.calls),
		Hint: "leave --syscalls out where the times themselves matter",
	}}
}

// What a run says of counting.
const (
	codeCounted    = "syscalls-counted"
	codeNotCounted = "syscalls-not-counted"
)

// countAgain goes on as a stored run began, which said so: trials that were
// counted are not to be compared with trials that were not.
func (m *machine) countAgain(p *Planned, said []bench.Warning) error {
	if !slices.ContainsFunc(said, func(w bench.Warning) bool { return w.Code == codeCounted }) {
		return nil
	}
	for _, now := range m.countCalls(p) {
		if now.Code == codeNotCounted {
			return &Problem{Kind: NotCounted, Err: errors.New("the run counted system calls; now " + now.Text)}
		}
	}
	return nil
}

// dearer says what counting costs.
func dearer(c *syscalls.Counter) string {
	return fmt.Sprintf("each of this machine takes about %s longer meanwhile", unit.FormatDuration(c.Cost()))
}

// countsInside refuses containers that nobody here looks into.
func countsInside(p *Planned) error {
	w := p.Workload
	if slices.ContainsFunc(p.usedInstances(), func(i Instance) bool { return i.Driver == RemoteDriver }) {
		return fmt.Errorf("%w: the containers are on another machine", bench.ErrUnsupported)
	}
	if slices.ContainsFunc(w.Metrics(), func(m bench.Metric) bool { return strings.HasSuffix(m.Name, supervise.SystemCalls) }) {
		return nil
	}
	return fmt.Errorf("%w: workload %s does not look at what its containers do", bench.ErrUnsupported, w.Name())
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
