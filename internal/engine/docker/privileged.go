package docker

import (
	"context"
	"fmt"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/proc"
	"github.com/tare-bench/tare/internal/kernel/readback"
)

// checkPrivileged refuses a privileged container where the engine itself lacks
// a capability, as in another container: it would make one and then not be
// able to start it. Where the engine cannot be looked at, it is believed.
func (e *Engine) checkPrivileged(ctx context.Context) error {
	conn, err := e.connect(ctx)
	if err != nil {
		return e.failed("connect", err)
	}
	defer func() { _ = conn.Close() }() // nothing was written
	if lacks, err := readback.Withheld(proc.Peer(conn)); err == nil && lacks != 0 {
		return fmt.Errorf("%w: %s: privileged: the engine itself lacks %v", bench.ErrUnsupported, e.cfg.Name, lacks)
	}
	return nil
}
