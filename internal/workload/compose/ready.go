package compose

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/supervise"
)

var errTimeout = fmt.Errorf("a service was %w", supervise.ErrNotReady)

// A watch finds out when the services are ready: generated ones from the beginning, because connecting to
// a Unix socket costs neither the engine nor compose anything; those of a user's file once compose has
// ended, because that needs calls to the engine.
type watch struct {
	*project
	now    func() time.Duration
	looker sync.WaitGroup
	done   chan struct{} // closed once all services were seen
	seen   []time.Duration
}

// watch begins to look until all services were seen or ctx ends.
func (p *project) watch(ctx context.Context, now func() time.Duration) *watch {
	w := &watch{project: p, now: now, done: make(chan struct{}), seen: make([]time.Duration, len(p.services))}
	if p.sockets != nil {
		w.looker.Go(func() { w.connect(ctx) })
	}
	return w
}

// stop returns when each service was seen to be ready, in their order; 0 = never. ctx of watch has
// ended, or await has returned without an error.
func (w *watch) stop() []time.Duration {
	w.looker.Wait()
	return w.seen
}

// The intervals of looking.
const (
	minInterval   = 500 * time.Microsecond
	maxInterval   = 50 * time.Millisecond
	intervalShare = 100 // one hundredth of the time waited
)

// interval is the pause before the next look, at least as long as the last one took.
func interval(waited, look time.Duration) time.Duration {
	return max(minInterval, min(maxInterval, waited/intervalShare), look)
}

// connect connects to each generated service until it accepts.
func (w *watch) connect(ctx context.Context) {
	for began := w.now(); ; {
		before := w.now()
		missing := false
		for i, s := range w.services {
			if w.seen[i] == 0 && accepts(w.socket(s)) {
				w.seen[i] = w.now()
			}
			missing = missing || w.seen[i] == 0
		}
		if !missing {
			close(w.done)
			return
		}
		if bench.Sleep(ctx, interval(before-began, w.now()-before)) != nil {
			return
		}
	}
}

func accepts(socket string) bool {
	c, err := net.Dial("unix", socket)
	if err == nil {
		_ = c.Close() // nothing was written
	}
	return err == nil
}

// The engine is asked whether services that are not ready still run: soon after compose has ended, and
// then from time to time.
const (
	firstLook = 100 * time.Millisecond
	lookTime  = time.Second
)

// await waits until all services are ready, after compose has ended.
func (w *watch) await(ctx context.Context) error {
	if w.sockets == nil {
		return w.ask(ctx)
	}
	for pause := firstLook; ; pause = lookTime {
		select {
		case <-w.done:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
		members, err := w.projecter.Members(ctx, w.name)
		if err == nil {
			err = w.allRun(ctx, members)
		}
		if err != nil {
			return bench.Because(ctx, err)
		}
	}
}

// ask asks the engine until every service of a user's file is ready.
func (w *watch) ask(ctx context.Context) error {
	for began := w.now(); ; {
		before := w.now()
		members, err := w.projecter.Members(ctx, w.name)
		if err == nil {
			err = w.allRun(ctx, members)
		}
		if err != nil {
			return bench.Because(ctx, err)
		}
		if !slices.ContainsFunc(members, func(m bench.Member) bool { return lacks(ctx, m) != "" }) {
			at := w.now()
			for i := range w.seen {
				w.seen[i] = at
			}
			return nil
		}
		if err := bench.Sleep(ctx, interval(before-began, w.now()-before)); err != nil {
			return err
		}
	}
}

// allRun checks, after compose has ended, that every service was made and started, and that none has
// failed. podman-compose ends well even if podman did not.
func (p *project) allRun(ctx context.Context, members []bench.Member) error {
	for _, s := range p.services {
		found := membersOf(members, s.name)
		if len(found) == 0 {
			return fmt.Errorf("service %s was not made%s", s.name, p.said())
		}
		for _, m := range found {
			switch {
			case m.Status == "created" || m.Status == "configured" || m.Status == "initialized":
				return fmt.Errorf("service %s was made, but not started%s", s.name, p.said())
			case m.Status == "exited" && m.Exit != 0, m.Health == "unhealthy":
				return fmt.Errorf("service %s: %s%s", s.name, state(m), p.printed(ctx, m))
			}
		}
	}
	return nil
}

// said quotes the end of what the program has printed, to be appended to an error.
func (p *project) said() string {
	if p.program == nil || p.program.last == "" {
		return ""
	}
	return ": " + p.program.title() + strings.TrimPrefix(p.program.last, "; it")
}

// state is what the engine says of a member.
func state(m bench.Member) string {
	switch {
	case m.Status == "exited":
		return fmt.Sprintf("it ended with exit status %d", m.Exit)
	case !m.Running:
		return fmt.Sprintf("it is %.40q", m.Status)
	case m.Health != "":
		return fmt.Sprintf("it runs, and its health check says %.40q", m.Health)
	}
	return "it runs"
}

// lacks says why a service of a user's file is not ready; empty if it is. A health check decides. Without
// one, all of its published ports must accept connections; without those, it must run. A service that
// has ended well has done its work.
func lacks(ctx context.Context, m bench.Member) string {
	switch {
	case m.Status == "exited" && m.Exit == 0:
		return ""
	case !m.Running || m.Status != "running" || m.Health != "" && m.Health != "healthy":
		return state(m)
	case m.Health != "":
		return ""
	}
	for _, at := range m.Ports {
		if err := answers(ctx, at); err != nil {
			return fmt.Sprintf("%s, but its port %d does not accept connections", state(m), at.Port())
		}
	}
	return ""
}

// The time limits of one connection. The kernel sends a lost packet again only after a second. A proxy
// in front of a container accepts everything, and closes the connection at once if nobody is behind it.
const (
	dialLimit  = 100 * time.Millisecond
	proxyLimit = 20 * time.Millisecond
)

// answers reports whether a service accepts connections at a port of the host, and keeps them.
func answers(ctx context.Context, at netip.AddrPort) error {
	host := at.Addr()
	switch {
	case !host.IsValid() || host == netip.IPv4Unspecified():
		host = bench.OnLoopback(0).Addr()
	case host == netip.IPv6Unspecified():
		host = netip.IPv6Loopback()
	}
	c, err := (&net.Dialer{Timeout: dialLimit}).DialContext(ctx, "tcp", netip.AddrPortFrom(host, at.Port()).String())
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // nothing was written
	if err := c.SetReadDeadline(time.Now().Add(proxyLimit)); err != nil {
		return err
	}
	var b [1]byte
	if _, err := c.Read(b[:]); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return nil
}

// explainTime is how long tare asks why a service is not ready.
const explainTime = 5 * time.Second

// late is the error of a project that was not ready in time: it names the first service that is not, and
// the end of what it has printed.
func (p *project) late(ctx context.Context, err error, seen []time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), explainTime)
	defer cancel()
	members, failure := p.projecter.Members(ctx, p.name)
	if failure != nil {
		return fmt.Errorf("%w (%v); then %w", err, p.timeout, failure)
	}
	for i, s := range p.services {
		why, about := "it was not made", ""
		for _, m := range membersOf(members, s.name) {
			why, about = p.notReady(ctx, m), p.printed(ctx, m)
			if why != "" {
				break
			}
		}
		if p.sockets != nil && seen[i] > 0 || why == "" {
			continue
		}
		return &bench.OpError{Op: opOf(err), Err: fmt.Errorf("service %s was %w after %v: %s%s",
			s.name, supervise.ErrNotReady, p.timeout, why, about)}
	}
	return err
}

func (p *project) notReady(ctx context.Context, m bench.Member) string {
	if p.sockets != nil {
		return state(m) + ", but does not accept connections"
	}
	return lacks(ctx, m)
}

// opOf is the operation in which an error came.
func opOf(err error) string {
	if op, ok := errors.AsType[*bench.OpError](err); ok {
		return op.Op
	}
	return "ready"
}

// printed quotes the end of a member's output, to be appended to an error.
func (p *project) printed(ctx context.Context, m bench.Member) string {
	text, err := p.projecter.Printed(ctx, m.ID)
	if err != nil {
		return "" // the rest of the error says enough
	}
	return lastLines([]byte(strings.ToValidUTF8(string(text), "?")))
}
