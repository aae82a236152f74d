package remote

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/tare-bench/tare/internal/bench"
)

// A session is what one client has here.
type session struct {
	Config
	ctx   context.Context // ends with the session
	site  Site
	local netip.Addr // of this machine, as the client has reached it

	mu         sync.Mutex
	ended      bool
	engines    map[string]bench.Engine
	containers map[uint64]*container
}

func newSession(ctx context.Context, c Config, site Site, local netip.Addr) *session {
	return &session{
		Config: c, ctx: ctx, site: site, local: local,
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
	e, err := s.site.Engine(name)
	if err != nil {
		return nil, err
	}
	s.engines[name] = e
	return e, nil
}

// container returns the container of a number, which need not have been asked
// for yet: what removes it may overtake what makes it.
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
		return nil, errors.New("a container without a number")
	case len(s.containers) >= s.Containers:
		return nil, fmt.Errorf("%d containers at once are as many as this server makes for one client", s.Containers)
	}
	c := newContainer(s.ctx)
	s.containers[number] = c
	return c, nil
}

// known returns the container of a number that has been asked for.
func (s *session) known(number uint64) (*container, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.containers[number]; c != nil {
		return c, nil
	}
	return nil, fmt.Errorf("there is no container %d: %w", number, errState)
}

func (s *session) forget(number uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.containers, number)
}

func (s *session) say(format string, args ...any) {
	s.Log(fmt.Sprintf("session %s: ", s.site.Name()) + fmt.Sprintf(format, args...))
}

// permitted returns spec as it is made here, or why it is not.
func (s *session) permitted(spec bench.Spec) (bench.Spec, error) {
	if err := reachable(spec); err != nil {
		return spec, err
	}
	if s.Permit != nil {
		if err := s.Permit(spec); err != nil {
			return spec, err
		}
	}
	spec.Ports = slices.Clone(spec.Ports)
	for i, p := range spec.Ports {
		spec.Ports[i] = s.outside(p)
	}
	return spec, nil
}

// outside is a port as it is published for a client elsewhere: on the address at
// which it has reached this machine.
func (s *session) outside(p bench.Port) bench.Port {
	p.Address = s.local.String()
	return p
}

// reachable refuses what a client elsewhere could not reach.
func reachable(spec bench.Spec) error {
	switch {
	case len(spec.Ports) == 0, spec.Reach == bench.ReachPublished, spec.Network == "", spec.Network == "host":
		return nil
	case spec.Reach == bench.ReachPeer:
		return fmt.Errorf("%w: a client beside the server, on its own network, would not be on another machine", bench.ErrUnsupported)
	default:
		return fmt.Errorf("%w: a container's address on network %s cannot be reached from another machine: network published can", bench.ErrUnsupported, spec.Network)
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
	if errors.Is(err, errTwice) {
		return "", err // there is the other one
	}
	if err != nil {
		s.forget(r.Container)
		return "", err
	}
	s.say("made container %d, %s, with %s: %.200q", r.Container, id, r.Engine, strings.Join(spec.Argv, " "))
	return id, nil
}

// remove removes a container, and sees to it that one which is asked for later is
// not made.
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
		s.say("removed container %s", id)
	}
	return nil
}

// end removes everything of the session, after its context has ended.
func (s *session) end(ctx context.Context) error {
	s.mu.Lock()
	s.ended = true
	left := slices.Sorted(maps.Keys(s.containers))
	s.mu.Unlock()
	errs := make([]error, len(left)) // goroutines of their own: one that hangs must not keep the others
	var workers sync.WaitGroup
	for i, number := range left {
		workers.Go(func() {
			if errs[i] = s.remove(ctx, number); errs[i] != nil {
				errs[i] = s.remove(ctx, number) // what is left after a removal that failed
			}
		})
	}
	workers.Wait()
	for _, name := range slices.Sorted(maps.Keys(s.engines)) {
		if err := s.engines[name].Close(ctx); err != nil {
			errs = append(errs, fmt.Errorf("close %s: %w", name, err))
		}
	}
	return errors.Join(append(errs, s.site.Close())...)
}
