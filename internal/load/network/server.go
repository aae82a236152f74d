package network

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/load"
)

// A Server serves clients until it is closed. It has one session at a time.
type Server struct {
	token    string
	tcp, udp int
	bound    netip.AddrPort
	slots    chan struct{} // connections

	mu      sync.Mutex
	session *side // the session that streams may join
}

// Serve runs the load net-server: it listens, reports its port, and serves until the
// process ends.
func Serve(a *load.Args) (*load.Report, error) {
	text := a.Text("bind", "0.0.0.0")
	port := a.Int("port", 0, 0, 65_535)
	if err := a.Err(); err != nil {
		return nil, err
	}
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return nil, fmt.Errorf("bind=%.80q: want an address of this host, such as 127.0.0.1", text)
	}
	t, err := token()
	if err != nil {
		return nil, err
	}
	s, err := Listen(netip.AddrPortFrom(addr, uint16(port)), t)
	if err != nil {
		return nil, err
	}
	go s.Run()
	r := load.NewReport("net-server")
	r.Facts["port"] = strconv.Itoa(int(s.bound.Port()))
	return r, nil
}

// maxConnections is the largest number of open connections: those of a session, and
// those that have not sent their first line yet.
const maxConnections = 4 * maxStreams

// Listen opens the ports of a server. Port 0 means any free port; see Address.
func Listen(addr netip.AddrPort, token string) (*Server, error) {
	s := &Server{token: token, slots: make(chan struct{}, maxConnections)}
	var err error
	if s.tcp, s.udp, s.bound, err = listen(addr); err != nil {
		return nil, err
	}
	wake := unix.NsecToTimeval(int64(wakeInterval))
	err = errors.Join(reusePort(s.udp), unix.SetsockoptTimeval(s.udp, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wake))
	if err != nil {
		closeAll(s.tcp, s.udp)
		return nil, err
	}
	return s, nil
}

// Address returns the address on which the server listens.
func (s *Server) Address() netip.AddrPort { return s.bound }

// Run serves until the server is closed.
func (s *Server) Run() {
	for {
		fd, _, err := unix.Accept4(s.tcp, unix.SOCK_CLOEXEC)
		switch {
		case err == nil:
			s.slots <- struct{}{}
			go func() {
				s.serve(fd)
				<-s.slots
			}()
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.EBADF): // closed
			return
		case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOMEM),
			errors.Is(err, unix.ENOBUFS):
			sleepUntimed(wakeInterval) // a connection may end meanwhile
		}
	}
}

// Close stops listening. A running session ends with its client.
func (s *Server) Close() error {
	return errors.Join(unix.Shutdown(s.tcp, unix.SHUT_RDWR), unix.Close(s.tcp), unix.Close(s.udp))
}

// serve answers one connection.
func (s *Server) serve(fd int) {
	w, err := newJSONConn(fd)
	if err != nil {
		return
	}
	h, err := s.greet(w)
	if err != nil {
		w.close()
		return
	}
	if h.stream != nil {
		s.stream(w, h.stream)
		return
	}
	defer w.close()
	if w.writeLine(replyTo(nil)) == nil {
		(&serverSession{server: s, jsonConn: w}).run()
	}
}

// greet reads the first line. A client that is refused gets the reason.
func (s *Server) greet(w *jsonConn) (hello, error) {
	if err := w.setReadLimit(replyLimit); err != nil {
		return hello{}, err
	}
	line, err := w.line(maxHello)
	if err != nil {
		return hello{}, err
	}
	h, err := parseHello(line)
	if err != nil {
		return hello{}, err
	}
	if err := h.check(s.token); err != nil {
		return hello{}, errors.Join(err, w.writeLine(replyTo(err)))
	}
	return h, nil
}

// stream joins a connection to its session, which then owns the socket.
func (s *Server) stream(w *jsonConn, id *streamID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session == nil || s.session.key != id.key || s.session.plan.Protocol != tcp {
		_ = w.writeLine(replyTo(errors.New("there is no such session"))) // the client may have gone
		w.close()
		return
	}
	fd, err := w.release()
	if err == nil {
		err = s.session.join(id.index, fd)
	}
	if err != nil {
		closeAll(fd)
		return
	}
	_, _ = send(fd, []byte(replyTo(nil)+"\n")) // the client notices a missing answer
}

// admitTo makes a session the one that streams may join; nil for none.
func (s *Server) admitTo(session *side) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if session != nil && s.session != nil {
		return errors.New("the server is busy: another client has a session")
	}
	s.session = session
	return nil
}
