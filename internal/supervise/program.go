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

// A Program is a program of the host that can do a job in place of a load.
type Program struct {
	Name    string
	Package string // the package that has it, in words
}

// Find reports whether the host has it; the error wraps bench.ErrUnsupported.
func (p Program) Find() error {
	if _, err := exec.LookPath(p.Name); err != nil {
		return fmt.Errorf("%w: program %s is not installed: install %s, or leave option tool out",
			bench.ErrUnsupported, p.Name, p.Package)
	}
	return nil
}

// UnknownOptions reports which of the named options, which the program does not have, were set
// to other values than their defaults.
func (p Program) UnknownOptions(params []bench.Param, given map[string]string, names ...string) error {
	var set []string
	for _, param := range params {
		if slices.Contains(names, param.Name) && given[param.Name] != param.Default {
			set = append(set, param.Name)
		}
	}
	if len(set) == 0 {
		return nil
	}
	return fmt.Errorf("%s does not know %s: leave that out, or leave out tool", p.Name, strings.Join(set, ", "))
}

// Job returns a job that runs the program with args, packed into an image of its own.
// Parse reads its output, which may be anything.
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

// UnknownOutput is the error of a program whose output tare does not understand.
func (p Program) UnknownOutput(want string, output []byte) error {
	return fmt.Errorf("%s: its output has no %s; perhaps tare does not know this version; the output begins with %s",
		p.Name, want, firstLine(output))
}

// CheckOwn refuses an image or a program for a workload that brings its own.
func CheckOwn(workload string, spec bench.Spec) error {
	if (spec.Image != "" && spec.Image != bench.AgentImage) || len(spec.Argv) > 0 {
		return fmt.Errorf("%w: workload %s brings its own program: leave image and argv out", bench.ErrUnsupported, workload)
	}
	return nil
}
