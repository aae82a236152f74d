// Package remote is the driver for an engine of another machine. Through a session with tare there
// (packages remote and peer), every method does there what a local driver does here. The engine is a
// bench.Remoter, for workloads that measure a server over the network.
//
// It has none of the capabilities that look at processes of this host. It is no bench.Cleaner
// either, because the server removes what a session made, however the session ends.
package remote

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/remote"
	"github.com/tare-bench/tare/internal/remote/peer"
)

// removeTime limits how long tare waits for the removal of an object whose creation was never
// confirmed.
const removeTime = 30 * time.Second

// A Link connects the engines of one machine: they share one session, which begins when one of them
// needs it, and again after it was lost.
type Link struct {
	dial func(context.Context) (*peer.Session, error)

	mu      sync.Mutex
	session *peer.Session
	number  atomic.Uint64 // of containers, so that numbers of two sessions never clash
}

// NewLink returns a link whose sessions dial begins.
func NewLink(dial func(context.Context) (*peer.Session, error)) *Link { return &Link{dial: dial} }

// Machine asks the server to describe its machine.
func (l *Link) Machine(ctx context.Context) (m remote.Machine, err error) {
	s, err := l.connect(ctx)
	if err == nil {
		err = s.Call(ctx, remote.OpMachine, remote.Request{}, &m)
	}
	return m, err
}

// Close ends the session.
func (l *Link) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.session == nil {
		return nil
	}
	return l.session.Close()
}

// connect returns the current session, or begins one.
func (l *Link) connect(ctx context.Context) (*peer.Session, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.session != nil && l.session.Err() == nil {
		return l.session, nil
	}
	if l.session != nil {
		_ = l.session.Close() // it was lost
		l.session = nil
	}
	s, err := l.dial(ctx)
	if err != nil {
		return nil, err
	}
	l.session = s
	return s, nil
}

// current returns the current session, if there is one.
func (l *Link) current() (*peer.Session, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session, l.session != nil && l.session.Err() == nil
}

// Config is what an Engine needs.
type Config struct {
	Name   string // of the instance here
	Engine string // its name on the other machine
	Link   *Link
	// Address is the IP address to which measured packets go, for a machine behind NAT; empty = the one
	// to which ssh connected, as the sshd there sees it.
	Address string
}

// An Engine is an engine of another machine.
type Engine struct{ config Config }

var (
	_ bench.Engine    = (*Engine)(nil)
	_ bench.Remoter   = (*Engine)(nil)
	_ bench.Addresser = (*Engine)(nil)
)

// New returns the engine. It connects when it is first used.
func New(c Config) *Engine { return &Engine{config: c} }

// Name implements bench.Engine.
func (e *Engine) Name() string { return e.config.Name }

// Lost implements bench.Remoter.
func (e *Engine) Lost() <-chan struct{} {
	e.config.Link.mu.Lock()
	defer e.config.Link.mu.Unlock()
	if e.config.Link.session == nil {
		return nil // nothing is prepared
	}
	return e.config.Link.session.Lost()
}

// Probe implements bench.Engine. Version and facts are those of the engine there.
func (e *Engine) Probe(ctx context.Context) (bench.EngineInfo, error) {
	if a := e.config.Address; a != "" {
		if _, err := netip.ParseAddr(a); err != nil {
			return bench.EngineInfo{}, fmt.Errorf("%w: engine %s: address %.80q is no IP address: write the one at which this "+
				"machine reaches the other one, such as 203.0.113.5", bench.ErrUnsupported, e.config.Name, a)
		}
	}
	s, err := e.config.Link.connect(ctx)
	if err != nil {
		return bench.EngineInfo{}, err
	}
	var info bench.EngineInfo
	var there remote.Machine
	trip, err := s.RoundTrip(ctx, remote.OpPing)
	err = errors.Join(err,
		s.Call(ctx, remote.OpMachine, remote.Request{}, &there),
		s.Call(ctx, remote.OpProbe, remote.Request{Engine: e.config.Engine}, &info))
	if err != nil {
		return bench.EngineInfo{}, err
	}
	info.Facts = append([]bench.Label{{Key: "engine", Value: info.Driver}}, info.Facts...)
	info.Name, info.Driver, info.Options = e.config.Name, "remote", nil
	info.Away = &bench.Away{Host: there.Host, Address: s.Host(), RoundTrip: trip}
	if a := e.address(s); a.IsValid() {
		info.Away.Address = a.String()
	}
	return info, nil
}

// address is where measured packets go; invalid if it is not known.
func (e *Engine) address(s *peer.Session) netip.Addr {
	if a, err := netip.ParseAddr(e.config.Address); err == nil {
		return a
	}
	return s.Address()
}

// Prepare implements bench.Engine.
func (e *Engine) Prepare(ctx context.Context, spec bench.Spec) error {
	if err := e.check(spec); err != nil {
		return err
	}
	s, err := e.config.Link.connect(ctx)
	if err != nil {
		return err
	}
	return s.Call(ctx, remote.OpPrepare, remote.Request{Engine: e.config.Engine, Spec: spec}, nil)
}

// check refuses what does not work from another machine.
func (e *Engine) check(spec bench.Spec) error {
	if spec.Storage != "" {
		return fmt.Errorf("%w: %s: storage %q: an engine on another machine cannot keep data: run tare on that "+
			"machine", bench.ErrUnsupported, e.config.Name, spec.Storage)
	}
	if spec.Reach == bench.ReachSocket {
		return fmt.Errorf("%w: %s: network socket: another machine shares no directory with this one",
			bench.ErrUnsupported, e.config.Name)
	}
	return nil
}

// Create implements bench.Engine. When ctx ends, it does not cancel the request, but removes the
// container. So nothing is left, however far the request got.
func (e *Engine) Create(ctx context.Context, spec bench.Spec) (bench.Container, error) {
	if err := errors.Join(ctx.Err(), e.check(spec)); err != nil {
		return nil, err
	}
	s, err := e.config.Link.connect(ctx)
	if err != nil {
		return nil, err
	}
	c := &container{session: s, number: e.config.Link.number.Add(1)}
	asked, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		err = s.Call(asked, remote.OpCreate, remote.Request{Engine: e.config.Engine, Container: c.number, Spec: spec}, &c.id)
	}()
	select {
	case <-answered:
		if err != nil {
			return nil, err
		}
		return c, nil
	case <-ctx.Done():
	}
	limited, stop := context.WithTimeout(asked, removeTime)
	defer stop()
	if err := c.remove(limited); err != nil {
		return nil, errors.Join(ctx.Err(), err)
	}
	<-answered // its removal answers
	return nil, ctx.Err()
}

// Close implements bench.Engine. If the session was lost, the server has already closed the engine.
func (e *Engine) Close(ctx context.Context) error {
	s, ok := e.config.Link.current()
	if !ok {
		return nil
	}
	return s.Call(ctx, remote.OpClose, remote.Request{Engine: e.config.Engine}, nil)
}

// Address implements bench.Addresser: a port of the other machine, at the address by which tare
// reached it.
func (e *Engine) Address(ctx context.Context, c bench.Container, p bench.Port) (netip.AddrPort, error) {
	own, err := e.containerOf(c)
	if err != nil {
		return netip.AddrPort{}, err
	}
	var port uint16
	err = own.call(ctx, remote.OpAddress, remote.Request{Port: p}, &port)
	at := e.address(own.session)
	if err == nil && !at.IsValid() {
		err = fmt.Errorf("%w: %s does not know its address for clients: sshd did not set SSH_CONNECTION there: name it "+
			"with option address of the engine", bench.ErrUnsupported, own.session.Host())
	}
	return netip.AddrPortFrom(at, port), err
}

// Path implements bench.Addresser: the network between the two machines, and then the path on the
// other machine.
func (e *Engine) Path(ctx context.Context, c bench.Container, p bench.Port) ([]string, error) {
	own, err := e.containerOf(c)
	if err != nil {
		return nil, err
	}
	var there []string
	if err := own.call(ctx, remote.OpPath, remote.Request{Port: p}, &there); err != nil {
		return nil, err
	}
	if len(there) > 0 && there[0] == "loopback" {
		there = there[1:] // passed only by a client on that machine
	}
	return append([]string{"network"}, there...), nil
}

func (e *Engine) containerOf(c bench.Container) (*container, error) {
	return bench.Own[*container](c, e.config.Name)
}
