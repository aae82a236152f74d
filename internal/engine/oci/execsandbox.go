package oci

import (
	"bytes"
	"context"
	"errors"
	"os"
	"time"

	"github.com/tare-bench/tare/internal/kernel/proc"
)

// runInSandbox is like run, for a process that the host does not see. When ctx ends, it kills the
// process inside and not the runtime's command, which then returns by itself. A command that is
// killed may already have started the process without having reported its number.
func (x *execution) runInSandbox(ctx context.Context, h *hostInfo, stdout, stderr *os.File, args []string) error {
	unlimited, kill := context.WithCancel(context.WithoutCancel(ctx))
	defer kill()
	back, stopped := make(chan struct{}), make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		x.stopInside(back)
		kill() // the command has not returned
	})
	err := run(unlimited, h, stdout, stderr, args)
	close(back)
	if !stop() {
		<-stopped
	}
	return err
}

// stopInside kills the process inside as soon as its number is known, and waits until the command
// has returned. It gives up after deleteLimit.
func (x *execution) stopInside(back <-chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), deleteLimit)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		_ = x.killInside(ctx) // the number is not known yet: try again
		select {
		case <-tick.C:
		case <-back:
			return
		case <-ctx.Done():
			return
		}
	}
}

// killInside lets the runtime kill the process inside, once. It does nothing without a number: no
// process was started, or its number is not known yet.
func (x *execution) killInside(ctx context.Context) error {
	if x.killed {
		return nil
	}
	pid, err := proc.ReadFile(x.path(".pid"), 64)
	pid = bytes.TrimSpace(pid)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(pid) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	c := x.container
	err = c.quietly(ctx, []string{"kill", "--pid", string(pid)}, "9")
	x.killed = err == nil
	return err
}
