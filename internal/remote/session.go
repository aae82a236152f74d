package remote

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/tare-bench/tare/internal/bench"
)

// A session is what one client has on this machine.
type session struct {
	Config
	ctx  context.Context // ends with the session
	host EngineHost

	mu         sync.Mutex
	ended      bool
	engines    map[string]bench.Engine
	containers map[uint64]*container
}

func newSession(ctx context.Context, c Config, host EngineHost) *session {
	return &session{
		Config: c, ctx: ctx, host: host,
		engines: map[string]bench.Engine{}, containers: map[uint64]*container{},
	}
}

var errEnded = errors.New("the session has ended")

// engine opens an engine once.
func (s *session) engine(name string) (bench.Engine, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil, errEnded
	}
	if e := s.engines[name]; e != nil {
		return e, nil
	}
	e, err := s.host.Engine(name)
	if err != nil {
		return nil, err
	}
	s.engines[name] = e
	return e, nil
}

// container returns the container with a number. It may be unknown yet, because the request to
// remove it may overtake the request to make it.
func (s *session) container(number uint64) (*container, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.containers[number]; c != nil {
		return c, nil
	}
	switch {
	case s.ended:
		return nil, errEnded
	case number == 0:
		return nil, errors.New("the request has no container number")
	case len(s.containers) >= s.Containers:
		return nil, fmt.Errorf("this server allows at most %d containers at the same time for one client", s.Containers)
	}
	c := newContainer(s.ctx)
	s.containers[number] = c
	return c, nil
}

// containerOf returns the container with a number; an error if the client has not asked for it.
func (s *session) containerOf(number uint64) (*container, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.containers[number]; c != nil {
		return c, nil
	}
	return nil, fmt.Errorf("no container %d: %w", number, errState)
}

func (s *session) forget(number uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.containers, number)
}

func (s *session) logf(format string, args ...any) {
	s.Log("session " + s.host.Name() + ": " + fmt.Sprintf(format, args...))
}

// permitted returns the spec that is used here, or an error if it is refused.
func (s *session) permitted(spec bench.Spec) (bench.Spec, error) {
	if err := reachable(spec); err != nil {
		return spec, err
	}
	if s.Permit != nil {
		if err := s.Permit(spec); err != nil {
			return spec, err
		}
	}
	if len(spec.Ports) > 0 && !s.Address.IsValid() {
		return spec, errNoAddress
	}
	spec.Ports = slices.Clone(spec.Ports)
	for i, p := range spec.Ports {
		spec.Ports[i] = s.publishedPort(p)
	}
	return spec, nil
}

// publishedPort is the port as it is published for a client on another machine: at the address that the
// client connected to.
func (s *session) publishedPort(p bench.Port) bench.Port {
	p.Address = s.Address.String()
	return p
}

// errNoAddress is the error of publishing ports for a client whose way here is not known.
var errNoAddress = fmt.Errorf("%w: this machine does not know the address at which the client reaches it, because "+
	"sshd did not set SSH_CONNECTION", bench.ErrUnsupported)

// reachable refuses what a client on another machine could not reach.
func reachable(spec bench.Spec) error {
	switch {
	case len(spec.Ports) == 0, spec.Reach == bench.ReachPublished, spec.Network == "", spec.Network == "host":
		return nil
	case spec.Reach == bench.ReachPeer:
		return fmt.Errorf("%w: reach peer puts the client beside the server, so it does not work with another "+
			"machine: use network published", bench.ErrUnsupported)
	default:
		return fmt.Errorf("%w: a container's address on network %s cannot be reached from another machine: use "+
			"network published", bench.ErrUnsupported, spec.Network)
	}
}

// create makes a container.
func (s *session) create(ctx context.Context, r Request) (string, error) {
	e, err := s.engine(r.Engine)
	if err != nil {
		return "", err
	}
	spec, err := s.permitted(r.Spec)
	if err != nil {
		return "", err
	}
	c, err := s.container(r.Container)
	if err != nil {
		return "", err
	}
	id, err := c.create(ctx, e, spec)
	if errors.Is(err, errAlreadyCreated) {
		return "", err // the number belongs to the other one
	}
	if err != nil {
		s.forget(r.Container)
		return "", err
	}
	s.logf("made container %d, %s, with %s: %.200q", r.Container, id, r.Engine, strings.Join(spec.Argv, " "))
	return id, nil
}

// remove removes a container. If the request to make it comes later, it is not made.
func (s *session) remove(ctx context.Context, number uint64) error {
	c, err := s.container(number)
	if err != nil {
		return err
	}
	id, asked, err := c.remove(ctx)
	if err != nil {
		return err
	}
	if asked {
		s.forget(number)
	}
	if id != "" {
		s.logf("removed container %s", id)
	}
	return nil
}

// end removes everything that the session has made, after its context has ended.
func (s *session) end(ctx context.Context) error {
	s.mu.Lock()
	s.ended = true
	left := slices.Sorted(maps.Keys(s.containers))
	s.mu.Unlock()
	errs := make([]error, len(left)) // one goroutine each, so that one that hangs does not block the others
	var workers sync.WaitGroup
	for i, number := range left {
		workers.Go(func() {
			if errs[i] = s.remove(ctx, number); errs[i] != nil {
				errs[i] = s.remove(ctx, number) // a removal that failed leaves an error
			}
		})
	}
	workers.Wait()
	for _, name := range slices.Sorted(maps.Keys(s.engines)) {
		if err := s.engines[name].Close(ctx); err != nil {
			errs = append(errs, fmt.Errorf("close %s: %w", name, err))
		}
	}
	return errors.Join(append(errs, s.host.Close())...)
}
