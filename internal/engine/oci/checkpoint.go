package oci

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/stdstream"
)

// Checkpointable checks that the runtime supports checkpoints, and that CRIU works on this kernel.
func (e *Engine) Checkpointable(ctx context.Context) error {
	h, err := e.hostInfo(ctx)
	if err != nil {
		return err
	}
	switch h.dialect.checkpoint {
	case runtimeCheckpoint:
		return nil
	case noCheckpoint:
		return fmt.Errorf("%w: %s cannot restore checkpoints", bench.ErrUnsupported, h.version.name)
	}
	if !knowsCRIU(ctx, h) {
		return fmt.Errorf("%w: this %s was built without CRIU", bench.ErrUnsupported, h.version.name)
	}
	if _, err := exec.LookPath("criu"); err != nil {
		return fmt.Errorf("%w: checkpoints of %s need criu: %w", bench.ErrUnsupported, h.version.name, err)
	}
	if said, err := output(ctx, "criu", "check"); err != nil {
		return fmt.Errorf("%w: criu does not work with this kernel: %w", bench.ErrUnsupported,
			commandFailure([]string{"criu", "check"}, err, nil, said))
	}
	return nil
}

// knowsCRIU asks a runtime for its features. crun also lists them with its version, and old
// versions of it only there.
func knowsCRIU(ctx context.Context, h *hostInfo) bool {
	for _, ask := range []struct{ command, want string }{
		{"features", `checkpoint.enabled": "true"`}, {"--version", "+CRIU"},
	} {
		said, err := output(ctx, h.binary, ask.command)
		if err == nil && strings.Contains(strings.ReplaceAll(string(said), `":"`, `": "`), ask.want) {
			return true
		}
	}
	return false
}

// output runs a command that changes nothing, and returns what it prints.
func output(ctx context.Context, name string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	return stdstream.Run(ctx, tailSize, name, args...)
}

// Checkpoint runs the runtime's checkpoint into the container's bundle. It returns when the first
// process has ended and the runtime has forgotten the container.
func (e *Engine) Checkpoint(ctx context.Context, c bench.Container) error {
	own, err := e.containerOf(c)
	if err != nil {
		return err
	}
	b := own.bundle
	l := own.watch()
	if err := errors.Join(os.RemoveAll(b.path("checkpoint")), os.Mkdir(b.path("checkpoint"), 0o700)); err != nil {
		return err
	}
	if err := own.quietly(ctx, []string{"checkpoint", "--image-path", b.path("checkpoint")}); err != nil {
		return err
	}
	select {
	case <-l.exited:
	case <-ctx.Done():
		return fmt.Errorf("%s was checkpointed but has not ended: %w", b.id, context.Cause(ctx))
	}
	if own.host.dialect.checkpoint == runtimeCheckpoint {
		return own.quietly(ctx, []string{"delete"})
	}
	return nil
}

// Restore runs the runtime's restore. The container's output goes where Attach directed it.
func (e *Engine) Restore(ctx context.Context, c bench.Container) error {
	own, err := e.containerOf(c)
	if err != nil {
		return err
	}
	b := own.bundle
	if err := b.pipes(); err != nil {
		return err
	}
	if err := os.Remove(b.path("pid")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	own.begin()
	err = own.command(ctx, b.stdout.w, b.stderr.w, []string{
		"restore", "--detach", "--bundle", b.dir, "--image-path", b.path("checkpoint"), "--pid-file", b.path("pid"),
	})
	own.watch()
	return err
}
