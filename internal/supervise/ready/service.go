package ready

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/supervise"
)

// A Service is a container that was started, with its Condition.
type Service struct {
	*supervise.Process
	condition  Condition
	engine     bench.Engine
	clock      bench.Clock
	logWatcher *logWatcher // nil unless the Condition is Log
	at         netip.AddrPort
	proxied    bool // a proxy may accept connections in front of the service
}

// Start makes and starts the container of spec, which Publish has returned. If it fails,
// nothing is left behind. The clock is used until the service is ready.
func (c Condition) Start(ctx context.Context, e bench.Engine, spec bench.Spec, clock bench.Clock) (*Service, error) {
	s := &Service{condition: c, engine: e, clock: clock, proxied: spec.Reach == bench.ReachPublished}
	var hear func() io.Writer
	if c.kind == Log {
		s.logWatcher = newLogWatcher(c.line.Match, clock.Now)
		hear = s.logWatcher.output
	}
	var err error
	s.Process, err = supervise.StartListening(ctx, e, spec, clock, "", hear)
	if err != nil {
		return nil, err
	}
	if err := s.find(ctx, spec); err != nil {
		clock.Cleanup(s.Remove)
		return nil, err
	}
	return s, nil
}

// find asks the engine for the address of the service.
func (s *Service) find(ctx context.Context, spec bench.Spec) error {
	if !s.condition.Connects() {
		return nil
	}
	addresser, ok := bench.As[bench.Addresser](s.engine)
	if !ok {
		return fmt.Errorf("%w: engine %s has no addresses", bench.ErrUnsupported, s.engine.Name())
	}
	p := bench.Port{Container: s.condition.port, Protocol: "tcp"}
	if len(spec.Ports) > 0 {
		p = spec.Ports[0]
	}
	_, err := s.clock.Step("address", func() (err error) {
		s.at, err = addresser.Address(ctx, s.Container(), p)
		return err
	})
	return err
}

// Moments are the times, on the Clock, when something was first true; zero if it was
// not checked.
type Moments struct {
	Port  time.Duration // a connection to the port was accepted
	Ready time.Duration // the condition was fulfilled
}

// Await waits until the service is ready. It fails if the service ends first, or is not
// ready in time.
func (s *Service) Await(ctx context.Context) (Moments, error) {
	var seen Moments
	_, err := s.clock.Step("ready", func() error {
		return s.WhileRunning(ctx, func(ctx context.Context) error {
			limited, cancel := context.WithTimeoutCause(ctx, s.condition.timeout, errTimeout)
			defer cancel()
			return s.await(limited, &seen)
		})
	})
	return seen, err
}

var errTimeout = fmt.Errorf("the service was %w", supervise.ErrNotReady)

// Advice for the user.
var (
	errPath = errors.New("choose another path with option path")
	errPort = errors.New("if it listens on another port, set option port")
)

func (s *Service) await(ctx context.Context, seen *Moments) error {
	switch s.condition.kind {
	case Log:
		return s.listen(ctx, seen)
	case Health:
		return s.poll(ctx, func(ctx context.Context) error { return s.healthy(ctx, seen) })
	case Port:
		return s.poll(ctx, func(ctx context.Context) error { return s.accepts(ctx, seen) })
	case HTTP:
		return s.poll(ctx, func(ctx context.Context) error { return s.answers(ctx, seen) })
	}
	_, started := s.Spans()
	seen.Ready = started.End
	return nil
}

func (s *Service) listen(ctx context.Context, seen *Moments) error {
	select {
	case <-s.logWatcher.seen:
		seen.Ready = s.logWatcher.at
		return nil
	case <-ctx.Done():
		return s.timeoutError(ctx, fmt.Errorf("no line of its output matches %.80q", s.condition.line))
	}
}

// timeoutError returns the error of a service whose time is over, with advice.
func (s *Service) timeoutError(ctx context.Context, why error) error {
	cause := context.Cause(ctx)
	timeout := errors.Is(cause, errTimeout)
	if timeout {
		cause = fmt.Errorf("%w (%v)", cause, s.condition.timeout)
	}
	if why == nil {
		return cause
	}
	if timeout && s.condition.Connects() && !errors.Is(why, errPath) {
		why = fmt.Errorf("%w: %w", why, errPort)
	}
	return fmt.Errorf("%w: %w", cause, why)
}

// The intervals of polling.
const (
	minInterval   = 500 * time.Microsecond
	maxInterval   = 50 * time.Millisecond
	intervalShare = 100 // one hundredth of the time waited
)

// poll calls look until it succeeds.
func (s *Service) poll(ctx context.Context, look func(context.Context) error) error {
	var last error
	for began := time.Now(); ; {
		before := time.Now()
		err := look(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil { // err comes from the canceled look and says nothing
			return s.timeoutError(ctx, last)
		}
		if late, ok := errors.AsType[net.Error](err); last == nil || !ok || !late.Timeout() {
			last = err // a look that timed out says less than an earlier one
		}
		// At least as long as the look itself took, so that polling leaves half of the CPU.
		pause := max(minInterval, min(maxInterval, time.Since(began)/intervalShare), time.Since(before))
		select {
		case <-ctx.Done():
			return s.timeoutError(ctx, last)
		case <-time.After(pause):
		}
	}
}
