package supervise

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/load"
)

// A Program is one of the host's that can do a job, in place of a load.
type Program struct {
	Name    string
	Package string // where it comes from, in words
}

// Find reports whether the host has it; the error wraps bench.ErrUnsupported.
func (p Program) Find() error {
	if _, err := exec.LookPath(p.Name); err != nil {
		return fmt.Errorf("%w: there is no program %s here: install %s, or leave tool out", bench.ErrUnsupported, p.Name, p.Package)
	}
	return nil
}

// Unknown reports which of the options that mean nothing to it were set to other
// than their defaults.
func (p Program) Unknown(params []bench.Param, given map[string]string, names ...string) error {
	var set []string
	for _, param := range params {
		if slices.Contains(names, param.Name) && given[param.Name] != param.Default {
			set = append(set, param.Name)
		}
	}
	if len(set) == 0 {
		return nil
	}
	return fmt.Errorf("%s does not know %s: leave that out, or tool", p.Name, strings.Join(set, ", "))
}

// Job is a job of the program with arguments, packed into an image of its own.
// Parse reads what it printed, which may be anything.
func (p Program) Job(spec bench.Spec, args []string, parse func(output []byte) (*load.Report, error)) Job {
	spec.Image, spec.Argv = "host:"+p.Name, append([]string{p.Name}, args...)
	return Job{Spec: spec, Read: func(ctx context.Context, process *Process) (*load.Report, error) {
		output, err := process.Output(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.Name, err)
		}
		return parse(output)
	}}
}

// Foreign is the error of a program whose output is not what is known.
func (p Program) Foreign(want string, output []byte) error {
	return fmt.Errorf("%s: its output has no %s; is this version another than what tare knows? It begins with %s", p.Name, want, firstLine(output))
}

// CheckOwn refuses an image or a program for a workload that brings its own.
func CheckOwn(workload string, spec bench.Spec) error {
	if (spec.Image != "" && spec.Image != bench.AgentImage) || len(spec.Argv) > 0 {
		return fmt.Errorf("%w: workload %s brings its own program: leave image and argv out", bench.ErrUnsupported, workload)
	}
	return nil
}
