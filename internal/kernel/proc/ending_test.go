package proc_test

import (
	"context"
	"errors"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/kernel/proc"
)

// The end of a process is noticed, before and after it; so is that nobody wants
// to know any more.
func TestAwaitEnd(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	f, err := proc.OpenProcess(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() }) // nothing is written to it
	gone := errors.New("nobody wants to know")
	ctx, cancel := context.WithCancelCause(t.Context())
	waited := make(chan error)
	go func() { waited <- proc.AwaitEnd(ctx, f) }()
	cancel(gone)
	if err := <-waited; !errors.Is(err, gone) {
		t.Errorf("its context ended: %v", err)
	}
	g, err := proc.OpenProcess(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() }) // nothing is written to it
	go func() { waited <- proc.AwaitEnd(t.Context(), g) }()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; err != nil { // it has ended, and is not collected
		t.Error(err)
	}
	_ = cmd.Wait() // killed
	if err := proc.AwaitEnd(t.Context(), g); err != nil {
		t.Errorf("it had ended before: %v", err)
	}
	if _, err := proc.OpenProcess(cmd.Process.Pid); !errors.Is(err, unix.ESRCH) {
		t.Errorf("opened what is no more: %v", err)
	}
}
