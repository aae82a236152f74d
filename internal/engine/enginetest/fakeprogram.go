package enginetest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
)

// A program is what runs in a fake container.
type program struct {
	c           *fakeContainer
	out, errOut io.Writer       // nil after an error, like a pipe without a reader
	term        <-chan struct{} // SIGTERM; nil if nobody can send it
	end         <-chan struct{} // SIGKILL
}

// run is the first process: a task of the agent.
func (p *program) run(task []string) bench.Exit {
	first := p.c.fake.now()
	ctx, cancel := p.context(context.Background())
	defer cancel()
	if err := p.c.fake.do(ctx, OpRun, p.c.number); errors.Is(err, context.Canceled) {
		return bench.Exit{Code: 137, Signal: 9}
	} else if err != nil {
		return bench.Exit{Code: 1}
	}
	return p.do(ctx, first, task)
}

// context returns one that ends with parent, or when the program is killed.
func (p *program) context(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	go func() {
		select {
		case <-p.end:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// do does a task until ctx ends, which is SIGKILL.
func (p *program) do(ctx context.Context, first time.Duration, task []string) bench.Exit {
	if len(task) == 0 {
		return bench.Exit{Code: 2}
	}
	code := p.task(ctx, first, task[0], task[1:])
	p.awaitThaw(ctx)
	if ctx.Err() != nil {
		return bench.Exit{Code: 137, Signal: 9}
	}
	return bench.Exit{Code: code}
}

// task returns the exit status, which counts unless ctx has ended.
func (p *program) task(ctx context.Context, first time.Duration, task string, args []string) int {
	arg := ""
	if len(args) > 0 {
		arg = args[0]
	}
	switch task {
	case "mark":
		p.write(ctx, &p.out, agent.Mark{First: first, Last: p.c.fake.now()}.String())
		if arg == "hold" {
			p.terminated(ctx, Forever)
		}
	case "exit":
		code, _ := strconv.Atoi(arg) // 0 for what is no number
		return code
	case "echo":
		if arg == "-2" {
			p.write(ctx, &p.errOut, strings.Join(args[1:], " ")+"\n")
			break
		}
		p.write(ctx, &p.out, strings.Join(args, " ")+"\n")
	case "env":
		p.write(ctx, &p.out, strings.Join(slices.Sorted(slices.Values(p.c.spec.Env)), "\n")+"\n")
	case "print":
		p.print(ctx, &p.out, arg)
		if slices.Contains(args, "both") {
			p.print(ctx, &p.errOut, arg)
		}
	case "spew":
		p.print(ctx, &p.out, strconv.Itoa(1<<62))
	case "sleep":
		d, _ := time.ParseDuration(arg) // 0 for what is no duration
		if p.terminated(ctx, d) {
			return 128 + 15
		}
	case "hold":
		p.write(ctx, &p.out, "ready\n")
		p.terminated(ctx, Forever)
	case "tick":
		for !p.terminated(ctx, time.Millisecond) && ctx.Err() == nil {
			p.write(ctx, &p.out, "tick\n")
		}
	case "stubborn":
		p.write(ctx, &p.out, "ready\n")
		<-ctx.Done()
	}
	return 0
}

// terminated waits for d, and reports whether SIGTERM came first.
func (p *program) terminated(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return false
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-p.term:
		return true
	case <-t.C:
	case <-ctx.Done():
	}
	return false
}

// awaitThaw returns when the container is not paused, or killed.
func (p *program) awaitThaw(ctx context.Context) {
	p.c.mu.Lock()
	thawed := p.c.thawed
	p.c.mu.Unlock()
	select {
	case <-thawed:
	case <-ctx.Done():
	}
}

// write ignores a writer that has failed.
func (p *program) write(ctx context.Context, w *io.Writer, text string) {
	p.awaitThaw(ctx)
	if *w == nil || ctx.Err() != nil {
		return
	}
	if _, err := io.WriteString(*w, text); err != nil {
		*w = nil
	}
}

// print prints that many bytes. It rests a moment after each block, so that a
// program without end lets a fake clock go on.
func (p *program) print(ctx context.Context, w *io.Writer, size string) {
	left, _ := strconv.Atoi(size) // 0 for what is no number
	block := string(bytes.Repeat([]byte("0"), 1<<20))
	for left > 0 && ctx.Err() == nil {
		n := min(left, len(block))
		p.write(ctx, w, block[:n])
		left -= n
		_ = bench.Sleep(ctx, time.Millisecond) // told by ctx
	}
}
