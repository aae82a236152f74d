package remote

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/tare-bench/tare/internal/bench"
)

const (
	// greetTime is how long a stranger may take to greet.
	greetTime = 5 * time.Second
	// wrongDelay is how long one with the wrong token waits for the answer, while
	// it counts as a stranger at the door.
	wrongDelay = time.Second
	// roomTime is how long a client is kept waiting while the session of another
	// ends.
	roomTime = 5 * time.Second
	// lifeTime is after how much silence the other side is asked for a sign of
	// life, and then how long it may take.
	lifeTime = 10 * time.Second
	// stuckTime is how long nothing can be sent before the connection is given up.
	stuckTime = 30 * time.Second
	// endTime bounds the clean-up after a session.
	endTime = time.Minute
	// maxStreams is how many operations of one client are under way at once.
	maxStreams = 250
)

// A Config is what a server needs. All fields are required unless they say
// otherwise.
type Config struct {
	Token   Token
	Version string // of tare; a client's must be the same
	Machine func(ctx context.Context) Machine

	// Open makes the place of one session. It is called when the session begins.
	Open func() (Site, error)
	// Permit refuses what a client may not run; nil permits everything.
	Permit func(bench.Spec) error
	// Log is told, in words for people, what the server does; called from any
	// goroutine.
	Log func(text string)

	Sessions   int // at once; 0 = 1, because two measurements at once disturb one another
	Containers int // of one session at once; 0 = 64
}

// A Site is where one session works, and what with.
type Site interface {
	// Name tells sessions apart, in the log.
	Name() string
	// Engine opens an engine that the machine offers. It is called once for each
	// name; the error wraps bench.ErrUnsupported where there is no such engine.
	Engine(name string) (bench.Engine, error)
	// Close is called at the end, after every engine was closed.
	Close() error
}

// Serve lends this machine's engines to who connects and has the token. It
// returns once ctx has ended and everything that sessions made is removed; its
// error is the listener's.
func Serve(ctx context.Context, l net.Listener, c Config) error {
	c.Sessions, c.Containers = cmp.Or(c.Sessions, 1), cmp.Or(c.Containers, 64)
	cert, err := certificate()
	if err != nil {
		return err
	}
	s := &lender{
		Config: c, door: newDoor(c.Log), rooms: make(chan struct{}, c.Sessions),
		tls: &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tlsVersion, NextProtos: []string{"h2"}},
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(ctx, func() { _ = l.Close() }) // ends Accept
	defer stop()
	err = s.accept(ctx, l)
	cancel()
	s.visitors.Wait()
	return err
}

// A lender is one execution of Serve.
type lender struct {
	Config
	tls      *tls.Config
	door     *door
	rooms    chan struct{} // one is taken by each session
	visitors sync.WaitGroup
}

// accept lets everybody come as far as the door.
func (s *lender) accept(ctx context.Context, l net.Listener) error {
	for {
		conn, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = conn.Close() // too late
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil: // such as too many open files: it will be better later
			s.door.refused("a connection could not be accepted: " + err.Error())
			time.Sleep(100 * time.Millisecond)
			continue
		}
		leave, ok := s.door.enter(conn.RemoteAddr())
		if !ok {
			_ = conn.Close() // there are too many already
			continue
		}
		s.visitors.Go(func() { s.visit(ctx, conn, leave) })
	}
}

// visit sees one connection from the door to its end.
func (s *lender) visit(ctx context.Context, raw net.Conn, leave func()) {
	defer func() { _ = raw.Close() }() // the client has what it was sent, or is gone
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	defer stop()
	conn := tls.Server(raw, s.tls)
	err := s.welcome(ctx, conn)
	leave()
	if err != nil {
		if ctx.Err() == nil {
			s.door.refused(fmt.Sprintf("%s is refused: %v", raw.RemoteAddr(), err))
		}
		return
	}
	defer func() { <-s.rooms }()
	s.host(ctx, conn)
}

// welcome lets a client in that has the token, once there is room for it.
func (s *lender) welcome(ctx context.Context, conn *tls.Conn) error {
	if err := conn.SetDeadline(time.Now().Add(greetTime)); err != nil {
		return err
	}
	if err := conn.HandshakeContext(ctx); err != nil {
		return err
	}
	binding, err := bindingOf(conn)
	if err != nil {
		return err
	}
	var h hello
	if err := readMessage(conn, &h); err != nil {
		return err
	}
	a := answer{Protocol: protocol, Refused: h.examine(s.Token, s.Version, binding)}
	if a.Refused == "" && !s.room(ctx) {
		a.Refused = noRoom
	}
	switch a.Refused {
	case "":
		a.Version, a.Proof = s.Version, s.Token.proof(server, binding)
	case wrongToken:
		wait(ctx, wrongDelay)
	case wrongVersion:
		a.Version = s.Version
	}
	if err := s.say(conn, a); err != nil {
		if a.Refused == "" {
			<-s.rooms
		}
		return err
	}
	return reasonOf(a.Refused, h, s.Version)
}

// say answers a greeting.
func (*lender) say(conn *tls.Conn, a answer) error {
	if err := conn.SetDeadline(time.Now().Add(greetTime)); err != nil {
		return err
	}
	if err := writeMessage(conn, a); err != nil {
		return err
	}
	return conn.SetDeadline(time.Time{})
}

// reasonOf puts a refusal into words, for the log.
func reasonOf(r refusal, h hello, version string) error {
	switch r {
	case "":
		return nil
	case wrongProtocol:
		return fmt.Errorf("it speaks protocol %d, this is protocol %d", h.Protocol, protocol)
	case wrongVersion:
		return fmt.Errorf("it is tare %.80q, this is tare %s", h.Version, version)
	case noRoom:
		return errors.New("there are as many sessions as there may be")
	default:
		return errors.New("wrong token")
	}
}

// room takes a place for a session, if one is free in good time.
func (s *lender) room(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, roomTime)
	defer cancel()
	select {
	case s.rooms <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// wait returns after d, or when ctx ends.
func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// host serves one session until its connection is gone, and cleans up after it.
func (s *lender) host(ctx context.Context, conn *tls.Conn) {
	from := conn.RemoteAddr().String()
	site, err := s.Open()
	if err != nil {
		s.Log(fmt.Sprintf("%s cannot be served: %v", from, err))
		return
	}
	s.Log(fmt.Sprintf("session %s: %s has connected", site.Name(), from))
	ctx, cancel := context.WithCancel(ctx)
	v := newSession(ctx, s.Config, site, localAddr(conn))
	serveOne(ctx, conn, v.handler())
	cancel()
	done, stop := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer stop()
	if err := v.end(done); err != nil {
		s.Log(fmt.Sprintf("session %s has ended, and left something behind ('tare clean' removes it): %v", site.Name(), err))
		return
	}
	s.Log(fmt.Sprintf("session %s has ended; nothing of it is left", site.Name()))
}

// localAddr is the address of this machine that a client has connected to.
func localAddr(conn net.Conn) netip.Addr {
	a, _ := netip.ParseAddrPort(conn.LocalAddr().String()) // the zero value where it is no network's
	return a.Addr().Unmap()
}
