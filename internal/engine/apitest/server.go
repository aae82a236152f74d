// Package apitest is for drivers whose engine has an HTTP API: a fake server with a test's answers,
// the faults that every such driver must withstand, and a bare loop of calls for comparison.
package apitest

import (
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Answers are a server's answers by "METHOD /path", where the path has no common prefix such as the
// version.
type Answers map[string]http.HandlerFunc

// A Server gives the answers of a test. For all other calls it answers that the object does not
// exist.
type Server struct {
	Socket string // path of the Unix socket

	root    string
	mu      sync.Mutex
	answers Answers
	calls   []string
}

// Serve starts a server that runs until the test ends. root is the optional prefix of the paths. If
// there are several answers to a call, the last one counts, so that common answers can come first.
func Serve(t *testing.T, root string, answers ...Answers) *Server {
	t.Helper()
	s := &Server{Socket: filepath.Join(t.TempDir(), "s"), root: root, answers: Answers{}}
	for _, a := range answers {
		maps.Copy(s.answers, a)
	}
	h := httptest.Server{Listener: listen(t, s.Socket), Config: &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}}
	h.Start()
	t.Cleanup(h.Close)
	return s
}

func listen(t *testing.T, socket string) net.Listener {
	t.Helper()
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// DeadSocket returns a socket on which no process listens any more.
func DeadSocket(t *testing.T) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "dead")
	l := listen(t, socket)
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return socket
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	call := r.Method + " " + strings.TrimPrefix(r.URL.Path, s.root)
	s.mu.Lock()
	s.calls = append(s.calls, call)
	answer := s.answers[call]
	s.mu.Unlock()
	if answer == nil {
		answer = Reply(http.StatusNotFound, `{"cause":"no such object","message":"no such object","response":404}`)
	}
	answer(w, r)
}

// Set changes the answer to a call.
func (s *Server) Set(call string, answer http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[call] = answer
}

// Calls returns the calls so far.
func (s *Server) Calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// HasCall reports whether there was a call with this beginning.
func (s *Server) HasCall(begin string) bool {
	return slices.ContainsFunc(s.Calls(), func(call string) bool { return strings.HasPrefix(call, begin) })
}

// Reply answers with a status and JSON.
func Reply(status int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // as an engine reads what it is sent
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text) // the test sees what is missing
	}
}

// Decode keeps the JSON that is sent in v, and answers then.
func Decode(t *testing.T, v any, then http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(v); err != nil {
			t.Error(err)
		}
		then(w, r)
	}
}

// Hang does not answer until the client gives up or the test ends.
func Hang(t *testing.T) http.HandlerFunc {
	ctx := t.Context()
	return func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then is the client's leaving noticed
		select {
		case <-r.Context().Done():
		case <-ctx.Done():
		}
	}
}

// Stream turns the connection into one that carries output, sends that and
// closes it.
func Stream(output string) http.HandlerFunc {
	return upgrade(func(conn net.Conn) { _, _ = io.WriteString(conn, output) }) // the client sees what is missing
}

// EndlessStream is a Stream on which nothing comes until the client goes.
func EndlessStream() http.HandlerFunc {
	return upgrade(func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }) // however it goes
}

func upgrade(use func(conn net.Conn)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		// What is not read when a connection is closed makes the kernel reset it.
		_, _ = io.Copy(io.Discard, r.Body)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return // the client reports it
		}
		defer func() { _ = conn.Close() }() // the client has what was sent
		_, _ = io.WriteString(conn,
			"HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.raw-stream\r\nConnection: "+
				"Upgrade\r\nUpgrade: tcp\r\n\r\n")
		use(conn)
	}
}
