package docker

import (
	"context"
	"fmt"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/proc"
	"github.com/tare-bench/tare/internal/kernel/readback"
)

// checkPrivileged refuses a privileged container if the engine itself lacks a capability, as it
// does inside another container. The engine would create such a container and then fail to start
// it. If the engine's process cannot be inspected, it is assumed to have all capabilities.
func (e *Engine) checkPrivileged(ctx context.Context) error {
	conn, err := e.connect(ctx)
	if err != nil {
		return e.failed("connect", err)
	}
	defer func() { _ = conn.Close() }() // nothing was written
	if lacks, err := readback.Unavailable(proc.Peer(conn)); err == nil && lacks != 0 {
		return fmt.Errorf("%w: %s: privileged: the engine itself lacks %v: run it with all capabilities",
			bench.ErrUnsupported, e.cfg.Name, lacks)
	}
	return nil
}
