package enginetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
)

// fakeDigest is the image of every container of a Fake.
const fakeDigest = "sha256:fa4efa4efa4efa4efa4efa4efa4efa4efa4efa4efa4efa4efa4efa4efa4efa4e"

// errOrder is wrapped by the errors of calls that come in the wrong order.
var errOrder = errors.New("called too early, too late or twice")

// A fakeContainer is a container of a Fake.
type fakeContainer struct {
	fake   *Fake
	number int
	spec   bench.Spec

	mu                        sync.Mutex
	out, errOut               io.Writer
	attached, started, killed bool

	kill   chan struct{} // closed by Remove
	exited chan struct{} // closed when exit is set
	exit   bench.Exit
}

func newFakeContainer(f *Fake, number int, spec bench.Spec) *fakeContainer {
	return &fakeContainer{fake: f, number: number, spec: spec, kill: make(chan struct{}), exited: make(chan struct{})}
}

func (c *fakeContainer) ID() string { return fmt.Sprintf("%s-%d", c.fake.config.Name, c.number) }

func (c *fakeContainer) Attach(ctx context.Context, stdout, stderr io.Writer) error {
	if err := c.fake.do(ctx, OpAttach, c.number); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.attached || c.started || c.killed {
		return fmt.Errorf("attach to %s: %w", c.ID(), errOrder)
	}
	c.attached, c.out, c.errOut = true, stdout, stderr
	return nil
}

func (c *fakeContainer) Inspect(ctx context.Context) (bench.Applied, error) {
	if err := c.fake.do(ctx, OpInspect, c.number); err != nil {
		return bench.Applied{}, err
	}
	a := bench.Applied{
		Image: fakeDigest, Argv: slices.Clone(c.argv()), Network: c.spec.Network,
		Mounts: slices.Clone(c.spec.Mounts), Limits: c.spec.Limits, Security: c.spec.Security,
	}
	if a.Network == "" {
		a.Network = "none"
	}
	if c.fake.config.Applied != nil {
		c.fake.config.Applied(&a)
	}
	return a, nil
}

// argv is the program, which is "mark" as in the agent's image where the Spec
// names none.
func (c *fakeContainer) argv() []string {
	if len(c.spec.Argv) == 0 {
		return []string{agent.Path, "mark"}
	}
	return c.spec.Argv
}

func (c *fakeContainer) Start(ctx context.Context) error {
	if err := c.fake.do(ctx, OpStart, c.number); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.started || c.killed {
		return fmt.Errorf("start %s: %w", c.ID(), errOrder)
	}
	if c.argv()[0] != agent.Path {
		return fmt.Errorf("start %s: %q: %w", c.ID(), c.argv()[0], fs.ErrNotExist)
	}
	c.started = true
	go func() {
		defer close(c.exited)
		p := program{c: c, out: c.out, errOut: c.errOut}
		c.exit = p.run(c.argv()[1:])
	}()
	return nil
}

func (c *fakeContainer) Wait(ctx context.Context) (bench.Exit, error) {
	if err := c.fake.do(ctx, OpWait, c.number); err != nil {
		return bench.Exit{}, err
	}
	c.mu.Lock()
	started := c.started
	c.mu.Unlock()
	if !started {
		return bench.Exit{}, fmt.Errorf("wait for %s: %w", c.ID(), errOrder)
	}
	select {
	case <-c.exited:
		return c.exit, nil
	case <-ctx.Done():
		return bench.Exit{}, ctx.Err()
	}
}

func (c *fakeContainer) Remove(ctx context.Context) error {
	if err := c.fake.do(ctx, OpRemove, c.number); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.killed {
		close(c.kill)
	}
	c.killed = true
	if c.started {
		<-c.exited
	}
	c.fake.mu.Lock()
	defer c.fake.mu.Unlock()
	delete(c.fake.live, c)
	return nil
}

// A program is what runs in a fake container.
type program struct {
	c           *fakeContainer
	out, errOut io.Writer // nil once it has failed, as pipes are that nobody reads
}

// run does a task of the agent.
func (p *program) run(task []string) bench.Exit {
	first := p.c.fake.now()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-p.c.kill:
			cancel()
		case <-ctx.Done():
		}
	}()
	if err := p.c.fake.do(ctx, OpRun, p.c.number); errors.Is(err, context.Canceled) {
		return bench.Exit{Code: 137, Signal: 9}
	} else if err != nil {
		return bench.Exit{Code: 1}
	}
	if len(task) == 0 {
		return bench.Exit{Code: 2}
	}
	return p.do(ctx, first, task[0], task[1:])
}

func (p *program) do(ctx context.Context, first time.Duration, task string, args []string) bench.Exit {
	arg := ""
	if len(args) > 0 {
		arg = args[0]
	}
	switch task {
	case "mark":
		p.write(&p.out, agent.Mark{First: first, Last: p.c.fake.now()}.String())
	case "exit":
		code, _ := strconv.Atoi(arg) // 0 for what is no number
		return bench.Exit{Code: code}
	case "echo":
		if arg == "-2" {
			p.write(&p.errOut, strings.Join(args[1:], " ")+"\n")
			break
		}
		p.write(&p.out, strings.Join(args, " ")+"\n")
	case "env":
		p.write(&p.out, strings.Join(slices.Sorted(slices.Values(p.c.spec.Env)), "\n")+"\n")
	case "print":
		p.print(ctx, arg)
	case "spew":
		p.print(ctx, strconv.Itoa(1<<62))
	case "sleep":
		d, _ := time.ParseDuration(arg) // 0 for what is no duration
		_ = sleep(ctx, d)               // told by ctx below
	case "hold", "stubborn":
		p.write(&p.out, "ready\n")
		<-ctx.Done()
	}
	if ctx.Err() != nil {
		return bench.Exit{Code: 137, Signal: 9}
	}
	return bench.Exit{}
}

// write goes on without a writer that fails.
func (p *program) write(w *io.Writer, text string) {
	if *w == nil {
		return
	}
	if _, err := io.WriteString(*w, text); err != nil {
		*w = nil
	}
}

// print prints that many bytes. It rests a moment after each block, so that a
// program without end lets a fake clock go on.
func (p *program) print(ctx context.Context, size string) {
	left, _ := strconv.Atoi(size) // 0 for what is no number
	block := string(bytes.Repeat([]byte("0"), 1<<20))
	for left > 0 && ctx.Err() == nil {
		n := min(left, len(block))
		p.write(&p.out, block[:n])
		left -= n
		_ = sleep(ctx, time.Millisecond) // told by ctx
	}
}
