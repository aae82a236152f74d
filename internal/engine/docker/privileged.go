package docker

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/bits"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/proc"
)

// checkPrivileged refuses a privileged container where the engine itself lacks
// a capability, as in another container: it would make one and then not be
// able to start it. Where the engine cannot be looked at, it is believed.
func (e *Engine) checkPrivileged(ctx context.Context) error {
	conn, err := e.client.Dialer()(ctx)
	if err != nil {
		return e.failed("connect", err)
	}
	defer func() { _ = conn.Close() }() // nothing was written
	held, ok := capabilitiesOf(peer(conn))
	if !ok {
		return nil
	}
	all, ok := number("/proc/sys/kernel/cap_last_cap", nil, 10)
	if missing := (uint64(2)<<all - 1) &^ held; ok && missing != 0 {
		return fmt.Errorf("%w: %s: privileged: the engine itself lacks %d of the kernel's capabilities (first: number %d)",
			bench.ErrUnsupported, e.cfg.Name, bits.OnesCount64(missing), bits.TrailingZeros64(missing))
	}
	return nil
}

// peer is the process at the other end of a Unix socket; 0 where it cannot be
// told.
func peer(conn net.Conn) int { return proc.Peer(conn) }

// capabilitiesOf is the bounding set of a process.
func capabilitiesOf(pid int) (uint64, bool) {
	return number(filepath.Join("/proc", strconv.Itoa(pid), "status"), []byte("CapBnd:"), 16)
}

// number reads the number that follows prefix on the first line that has it.
func number(name string, prefix []byte, base int) (uint64, bool) {
	text, ok := line(name, prefix)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(string(bytes.TrimSpace(text)), base, 64)
	return n, err == nil
}

// line reads what follows prefix on the first line that has it.
func line(name string, prefix []byte) ([]byte, bool) {
	f, err := os.Open(name)
	if err != nil {
		return nil, false
	}
	defer func() { _ = f.Close() }() // it was only read
	text, err := io.ReadAll(io.LimitReader(f, 64<<10))
	if err != nil {
		return nil, false
	}
	for line := range bytes.Lines(text) {
		if value, ok := bytes.CutPrefix(line, prefix); ok {
			return value, true
		}
	}
	return nil, false
}
