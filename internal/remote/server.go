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
	// greetTime limits how long a stranger may take to greet.
	greetTime = 5 * time.Second
	// rejectDelay is how long a client with a wrong token waits for the answer. It counts as a
	// stranger meanwhile.
	rejectDelay = time.Second
	// sessionWait is how long a client waits for the end of another client's session.
	sessionWait = 5 * time.Second
	// keepAliveTime is the silence after which a side sends a ping, and then the time limit for the
	// answer.
	keepAliveTime = 10 * time.Second
	// writeTimeout is how long sending may be blocked before the connection is closed.
	writeTimeout = 30 * time.Second
	// endTime limits the clean-up after a session.
	endTime = time.Minute
	// maxStreams limits the concurrent operations of one client.
	maxStreams = 250
)

// A Config is what a server needs. All fields are required unless their comments say otherwise.
type Config struct {
	Token   Token
	Version string // of tare; a client's must be the same
	Machine func(ctx context.Context) Machine

	// Open makes the EngineHost of a session. It is called when the session begins.
	Open func() (EngineHost, error)
	// Permit refuses what a client may not run; nil permits everything.
	Permit func(bench.Spec) error
	// Log gets messages for people about what the server does. It may be called from any goroutine.
	Log func(text string)

	Sessions   int // concurrent; 0 = 1, because concurrent measurements disturb one another
	Containers int // of one session at the same time; 0 = 64
}

// An EngineHost has the engines and files of one session.
type EngineHost interface {
	// Name identifies the session in the log.
	Name() string
	// Engine opens an engine that the machine offers. It is called once for each
	// name; the error wraps bench.ErrUnsupported if there is no such engine.
	Engine(name string) (bench.Engine, error)
	// Close is called at the end, after every engine was closed.
	Close() error
}

// Serve lends this machine's engines to clients that have the token. It returns when ctx has ended
// and everything that sessions made is removed; its error is the listener's.
func Serve(ctx context.Context, l net.Listener, c Config) error {
	c.Sessions, c.Containers = cmp.Or(c.Sessions, 1), cmp.Or(c.Containers, 64)
	cert, err := certificate()
	if err != nil {
		return err
	}
	s := &sessionServer{
		Config: c, admission: newAdmission(c.Log), sessions: make(chan struct{}, c.Sessions),
		tls: &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tlsVersion, NextProtos: []string{"h2"}},
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(ctx, func() { _ = l.Close() }) // ends Accept
	defer stop()
	err = s.accept(ctx, l)
	cancel()
	s.connections.Wait()
	return err
}

// A sessionServer is one call of Serve.
type sessionServer struct {
	Config
	tls         *tls.Config
	admission   *admission
	sessions    chan struct{} // each session takes one
	connections sync.WaitGroup
}

// accept accepts every connection, up to the door's limits.
func (s *sessionServer) accept(ctx context.Context, l net.Listener) error {
	for {
		conn, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = conn.Close() // the server is stopping
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil: // such as too many open files, which may be over later
			s.admission.refused("a connection could not be accepted: " + err.Error())
			time.Sleep(100 * time.Millisecond)
			continue
		}
		leave, ok := s.admission.enter(conn.RemoteAddr())
		if !ok {
			_ = conn.Close() // there are already too many
			continue
		}
		s.connections.Go(func() { s.serveConnection(ctx, conn, leave) })
	}
}

// serveConnection handles one connection from the door to its end.
func (s *sessionServer) serveConnection(ctx context.Context, raw net.Conn, leave func()) {
	defer func() { _ = raw.Close() }() // the client has got everything or has left
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	defer stop()
	conn := tls.Server(raw, s.tls)
	err := s.authenticate(ctx, conn)
	leave()
	if err != nil {
		if ctx.Err() == nil {
			s.admission.refused(fmt.Sprintf("%s is refused: %v", raw.RemoteAddr(), err))
		}
		return
	}
	defer func() { <-s.sessions }()
	s.serveSession(ctx, conn)
}

// authenticate admits a client that has the token, once the server has room for it.
func (s *sessionServer) authenticate(ctx context.Context, conn *tls.Conn) error {
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
	a := answer{Protocol: protocol, Refused: h.check(s.Token, s.Version, binding)}
	if a.Refused == "" && !s.takeSession(ctx) {
		a.Refused = busy
	}
	switch a.Refused {
	case "":
		a.Version, a.Proof = s.Version, s.Token.proof(server, binding)
	case wrongToken:
		_ = bench.Sleep(ctx, rejectDelay) // less if the server ends
	case wrongVersion:
		a.Version = s.Version
	}
	err = errors.Join(conn.SetDeadline(time.Now().Add(greetTime)), writeMessage(conn, a), conn.SetDeadline(time.Time{}))
	if err != nil {
		if a.Refused == "" {
			<-s.sessions
		}
		return err
	}
	return reasonOf(a.Refused, h, s.Version)
}

// reasonOf describes a refusal for the log.
func reasonOf(r refusal, h hello, version string) error {
	switch r {
	case "":
		return nil
	case wrongProtocol:
		return fmt.Errorf("it uses protocol %d, this server uses protocol %d", h.Protocol, protocol)
	case wrongVersion:
		return fmt.Errorf("it runs tare %.80q, this server runs tare %s", h.Version, version)
	case busy:
		return errors.New("the server already has as many sessions as it may")
	default:
		return errors.New("wrong token")
	}
}

// takeSession reserves a place for a session, if one becomes free within sessionWait.
func (s *sessionServer) takeSession(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, sessionWait)
	defer cancel()
	select {
	case s.sessions <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// serveSession serves one session until its connection ends, and cleans up after it.
func (s *sessionServer) serveSession(ctx context.Context, conn *tls.Conn) {
	from := conn.RemoteAddr().String()
	host, err := s.Open()
	if err != nil {
		s.Log(fmt.Sprintf("%s cannot be served: %v", from, err))
		return
	}
	s.Log(fmt.Sprintf("session %s: %s has connected", host.Name(), from))
	ctx, cancel := context.WithCancel(ctx)
	v := newSession(ctx, s.Config, host, localAddr(conn))
	serveOne(ctx, conn, v.handler())
	cancel()
	done, stop := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer stop()
	if err := v.end(done); err != nil {
		s.Log(fmt.Sprintf("session %s has ended, but some of its objects could not be removed (run 'tare clean'): %v",
			host.Name(), err))
		return
	}
	s.Log(fmt.Sprintf("session %s has ended, and everything that it made is removed", host.Name()))
}

// localAddr is the address of this machine that a client has connected to.
func localAddr(conn net.Conn) netip.Addr {
	a, _ := netip.ParseAddrPort(conn.LocalAddr().String()) // the zero value if it is not an IP address
	return a.Addr().Unmap()
}
