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
		m.callCounter, err = syscalls.Open()
	}
	if err != nil {
		return []bench.Warning{{
			Code: codeNotCounted,
			Text: "system calls were not counted: " + err.Error(),
		}}
	}
	return []bench.Warning{{
		Code: codeCounted,
		Text: "system calls were counted, and " + countingCost(m.callCounter),
		Hint: "leave out --syscalls if the times themselves matter",
	}}
}

// What a run says of counting.
const (
	codeCounted    = "syscalls-counted"
	codeNotCounted = "syscalls-not-counted"
)

// resumeCounting counts system calls if the stored run did, as its warnings say: counting
// changes times, so all trials of a run must be alike.
func (m *machine) resumeCounting(p *Planned, said []bench.Warning) error {
	if !slices.ContainsFunc(said, func(w bench.Warning) bool { return w.Code == codeCounted }) {
		return nil
	}
	for _, now := range m.countCalls(p) {
		if now.Code == codeNotCounted {
			return &Problem{Kind: NotCounted, Err: errors.New("the run counted system calls, but now " + now.Text)}
		}
	}
	return nil
}

// countingCost says how much counting slows system calls.
func countingCost(c *syscalls.Counter) string {
	return fmt.Sprintf("counting makes every system call of this machine about %s slower", unit.FormatDuration(c.Cost()))
}

// countsInside refuses containers whose processes tare does not watch.
func countsInside(p *Planned) error {
	w := p.Workload
	if slices.ContainsFunc(p.usedInstances(), func(i Instance) bool { return i.Driver == RemoteDriver }) {
		return fmt.Errorf("%w: the containers are on another machine", bench.ErrUnsupported)
	}
	if slices.ContainsFunc(w.Metrics(), func(m bench.Metric) bool {
		return strings.HasSuffix(m.Name, supervise.SystemCalls)
	}) {
		return nil
	}
	return fmt.Errorf("%w: workload %s does not watch the processes of its containers", bench.ErrUnsupported, w.Name())
}

// syscallFinding says whether system calls can be counted here.
func syscallFinding() host.Finding {
	f := host.Finding{Name: "syscalls", Status: host.Good}
	c, err := syscalls.Open()
	if err == nil {
		f.Text = "--syscalls works; " + countingCost(c)
		err = c.Close()
	}
	if err != nil {
		f.Status, f.Text = host.Note, "--syscalls does not work: "+err.Error()
	}
	return f
}

// stopCalls ends the counting.
func (m machine) stopCalls() error {
	if m.callCounter == nil {
		return nil
	}
	return m.callCounter.Close()
}
