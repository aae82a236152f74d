package app

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// hookOutputGrace is how long the output of a hook's command is waited for once the
// command itself is through: what it left running may hold it open for ever.
const hookOutputGrace = time.Second

// command runs the argv of a hook, without a shell. It has a process group of
// its own, so that an interruption from the terminal does not end it in the
// middle of what it sets up; when ctx ends, the group is killed.
func command(ctx context.Context, argv []string) error {
	if len(argv) == 0 {
		return errors.New("the hook has no command")
	}
	var out tailBuffer
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = hookOutputGrace
	err := cmd.Run()
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay):
		return nil // it is through; what it started goes on
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %s", context.Cause(ctx), out)
	default:
		return fmt.Errorf("%w: %s", err, out)
	}
}

// tailBuffer keeps the end of what is written to it.
type tailBuffer struct{ text []byte }

// tailSize is how many bytes it keeps.
const tailSize = 200

func (t *tailBuffer) Write(p []byte) (int, error) {
	t.text = append(t.text, p[max(0, len(p)-tailSize):]...)
	t.text = t.text[max(0, len(t.text)-tailSize):]
	return len(p), nil
}

func (t tailBuffer) String() string {
	return strings.TrimSpace(strings.ToValidUTF8(string(t.text), ""))
}
