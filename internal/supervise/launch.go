package supervise

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
)

// A Launch is a program with data, started in the same way in every cell: the agent, in the place of
// the program, copies the data, gives up root, waits, and then executes the program.
//
//	l := supervise.Launch{Launch: agent.Launch{Template: dir, Target: bench.DataDir + "/db", …, Wait: true},
//		Agent: file, Program: []string{"/usr/sbin/server", "-D", bench.DataDir + "/db"}}
//	p, err := supervise.Start(ctx, e, l.Spec(e, spec), clock, "server")
//	…
//	prepared, err := p.Prepared(ctx)
//	at, err := p.Execute(ctx, clock)
//	…                                    // until it is ready
//	err = p.AttestProgram(ctx, digest)
type Launch struct {
	agent.Launch
	Agent   string   // the agent's file on this host: see image.Library.WriteAgent
	Program []string // a path in the container, and arguments
}

// Spec returns spec with the launcher as its program. A container gets the agent's file and the
// template as mounts that are only read, under their paths on this host. A plain process sees them
// there anyway.
func (l Launch) Spec(e bench.Engine, spec bench.Spec) bench.Spec {
	spec.Argv = l.Argv(l.Agent, l.Program...)
	if _, plain := bench.As[bench.DataKeeper](e); plain {
		return spec
	}
	spec.Mounts = slices.Clone(spec.Mounts)
	for _, source := range []string{l.Agent, l.Template} {
		if source != "" {
			spec.Mounts = append(spec.Mounts, bench.Mount{Type: "bind", Source: source, Target: source, ReadOnly: true})
		}
	}
	return spec
}

// Prepared waits until a launcher has prepared everything, and returns what it has done.
func (p *Process) Prepared(ctx context.Context) (agent.Prepared, error) {
	line, err := p.launchLine(ctx, 1)
	if err != nil {
		return agent.Prepared{}, err
	}
	done, err := agent.ParsePrepared(line)
	return done, p.named(err)
}

// Execute has a launcher that waits execute its program, and returns when it did, by CLOCK_MONOTONIC.
// Prepared must have returned. That the program could not be executed is seen later: the process
// ends.
func (p *Process) Execute(ctx context.Context, c bench.Clock) (time.Duration, error) {
	if _, err := c.Step("execute", func() error { return p.sendWord(ctx) }); err != nil {
		return 0, p.named(err)
	}
	line, err := p.launchLine(ctx, 2)
	if err != nil {
		return 0, err
	}
	now, err := agent.ParseExecuting(line)
	return now.At, p.named(err)
}

// sendWord sends agent.LaunchSignal: the engine does or, if it cannot, another agent inside.
func (p *Process) sendWord(ctx context.Context) error {
	if s, ok := bench.As[bench.Signaler](p.engine); ok {
		return s.Signal(ctx, p.container, agent.LaunchSignal)
	}
	e, ok := bench.As[bench.Execer](p.engine)
	if !ok {
		return fmt.Errorf("%w: engine %s can neither send a signal nor run another program in a container",
			bench.ErrUnsupported, p.engine.Name())
	}
	exit, err := e.Exec(ctx, p.container, []string{p.applied.Argv[0], "word"}, nil, nil)
	if err == nil && exit != (bench.Exit{}) {
		err = fmt.Errorf("the program that sends it ended with %v", exit)
	}
	return err
}

// launchLine returns the nth line that a launcher has printed.
func (p *Process) launchLine(ctx context.Context, n int) (string, error) {
	text, err := p.AwaitLines(ctx, n)
	if err != nil {
		return "", err
	}
	return strings.SplitAfter(string(text), "\n")[n-1], nil
}

// AttestProgram checks that the first process inside executes the program with that digest, as
// FileDigest returns it; the error wraps bench.ErrMismatch. It checks nothing if the process is not
// visible from here.
func (p *Process) AttestProgram(ctx context.Context, digest string) error {
	if !p.find(ctx) {
		return nil
	}
	name := fmt.Sprintf("/proc/%d/exe", p.first.PID)
	got, err := FileDigest(name)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
		return nil
	}
	if err == nil && got != digest {
		path, _ := os.Readlink(name) // only for the message
		err = fmt.Errorf("%w: program: asked for %s, got %s, which is %s", bench.ErrMismatch, digest, got, path)
	}
	return p.named(err)
}

// FileDigest returns the digest of a file's content, "sha256:…".
func FileDigest(name string) (digest string, err error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}
