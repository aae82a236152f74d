package remote_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/remote"
	"github.com/tare-bench/tare/internal/remote/peer"
)

// testTimeout bounds what must not hang.
const testTimeout = time.Minute

// A testServer is a server on loopback with an engine that makes nothing.
type testServer struct {
	engine *enginetest.Fake
	begin  func(context.Context) (*peer.Session, error)
	stop   func() // ends the server, and returns when it has ended

	mu     sync.Mutex
	log    []string
	closed int // sites
}

func (l *testServer) Name() string { return "one" }

func (l *testServer) Engine(name string) (bench.Engine, error) {
	if name != "fake" {
		return nil, fmt.Errorf("%w: no engine %q here", bench.ErrUnsupported, name)
	}
	return l.engine, nil
}

func (l *testServer) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed++
	return nil
}

func (l *testServer) logged(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(strings.Join(l.log, "\n"), text)
}

// newTestServer makes a server. Edit changes what it is told; nil for nothing.
func newTestServer(t *testing.T, f enginetest.FakeConfig, edit func(*remote.Config)) *testServer {
	t.Helper()
	l := &testServer{engine: enginetest.NewFake(f)}
	config := remote.Config{
		Version: "v1", Address: netip.MustParseAddr("127.0.0.1"),
		Machine: func(context.Context) remote.Machine { return remote.Machine{Engines: []string{"fake"}} },
		Open:    func() (remote.EngineHost, error) { return l, nil },
		Log: func(text string) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.log = append(l.log, text)
		},
	}
	if edit != nil {
		edit(&config)
	}
	end, dial := served(t, config)
	l.begin = dial
	l.stop = sync.OnceFunc(func() {
		if err := end(); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	t.Cleanup(l.stop)
	return l
}

func (l *testServer) dial(t *testing.T) *peer.Session {
	t.Helper()
	s, err := l.begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // the server ends it as well
	return s
}

// until waits for something that comes in a while.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(testTimeout); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not after %v", what, testTimeout)
		}
	}
}

func hold() bench.Spec { return bench.Spec{Argv: []string{"/tare-agent", "hold"}} }

// make makes and starts a container.
func makeOne(t *testing.T, s *peer.Session, number uint64) {
	t.Helper()
	var id string
	r := remote.Request{Engine: "fake", Container: number, Spec: hold()}
	if err := errors.Join(s.Call(t.Context(), remote.OpCreate, r, &id),
		s.Call(t.Context(), remote.OpStart, r, nil)); err != nil {
		t.Fatal(err)
	}
	if id == "" {
		t.Fatal("the container has no ID")
	}
}

// Whatever ends a session, what it made is removed.
func TestSessionEnds(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, l *testServer, s *peer.Session){
		"client closes": func(t *testing.T, _ *testServer, s *peer.Session) {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		},
		"server ends": func(_ *testing.T, l *testServer, _ *peer.Session) { l.stop() },
	} {
		t.Run(name, func(t *testing.T) {
			l := newTestServer(t, enginetest.FakeConfig{}, nil)
			s := l.dial(t)
			makeOne(t, s, 1)
			makeOne(t, s, 2)
			var waited sync.WaitGroup
			waited.Go(func() {
				if err := s.Call(t.Context(), remote.OpWait, remote.Request{Container: 1}, nil); err == nil {
					t.Error("Wait succeeds although the session has ended")
				}
			})
			end(t, l, s)
			waited.Wait()
			until(t, "the end", func() bool { return l.logged("everything that it made is removed") })
			if n := l.engine.Live(); n != 0 {
				t.Errorf("%d containers are left", n)
			}
			if s.Err() == nil {
				t.Error("the session goes on")
			}
			if err := s.Call(t.Context(), remote.OpPing, remote.Request{}, nil); err == nil {
				t.Error("a call after the end succeeds")
			}
		})
	}
}

// A container that is removed before it is made, or while it is, is not left.
func TestRemoveOvertakesCreate(t *testing.T) {
	began := make(chan struct{})
	l := newTestServer(t,
		enginetest.FakeConfig{
			Takes: map[enginetest.Op]time.Duration{enginetest.OpCreate: enginetest.Forever},
		}, func(c *remote.Config) {
			c.Permit = func(bench.Spec) error { close(began); return nil }
		})
	s := l.dial(t)
	created := make(chan error, 1)
	go func() {
		created <- s.Call(t.Context(), remote.OpCreate, remote.Request{Engine: "fake", Container: 7, Spec: hold()}, nil)
	}()
	<-began
	if err := s.Call(t.Context(), remote.OpRemove, remote.Request{Container: 7}, nil); err != nil {
		t.Errorf("remove = %v", err)
	}
	if err := <-created; !errors.Is(err, context.Canceled) {
		t.Errorf("create = %v, want context.Canceled", err)
	}
	if n := l.engine.Live(); n != 0 {
		t.Errorf("%d containers are left", n)
	}
}

// What a request must not ask for is refused with the reason.
func TestRequests(t *testing.T) {
	l := newTestServer(t, enginetest.FakeConfig{}, func(c *remote.Config) {
		c.Permit = func(s bench.Spec) error {
			if s.Image == "secret" {
				return errors.New("not this one")
			}
			return nil
		}
	})
	s := l.dial(t)
	makeOne(t, s, 1)
	web := []bench.Port{{Container: 80, Protocol: "tcp"}}
	of := func(number uint64, edit func(*bench.Spec)) remote.Request {
		r := remote.Request{Engine: "fake", Container: number, Spec: hold()}
		edit(&r.Spec)
		return r
	}
	for _, test := range []struct {
		op   string
		ask  remote.Request
		kind error // nil for any
		says string
	}{
		{remote.OpCreate, of(0, func(*bench.Spec) {}), nil, "no container number"},
		{remote.OpCreate, of(1, func(*bench.Spec) {}), nil, "number twice"},
		{remote.OpCreate, of(2, func(s *bench.Spec) { s.Image = "secret" }), nil, "not this one"},
		{remote.OpPrepare, of(0, func(s *bench.Spec) { s.Image = "secret" }), nil, "not this one"},
		{remote.OpCreate, of(2, func(s *bench.Spec) { s.Network, s.Ports = "bridge", web }), bench.ErrUnsupported, "use network published"},
		{remote.OpCreate, of(2, func(s *bench.Spec) { s.Network, s.Reach, s.Ports = "bridge", "peer", web }), bench.ErrUnsupported, "beside the server"},
		{remote.OpCreate, of(2, func(s *bench.Spec) { s.Argv = []string{strings.Repeat("x", 1<<20)} }), nil, "too large"},
		{remote.OpProbe, remote.Request{Engine: "none"}, bench.ErrUnsupported, `no engine "none"`},
		{remote.OpStart, remote.Request{Container: 5}, nil, "no container 5"},
		{remote.OpAddress, remote.Request{Container: 1}, bench.ErrUnsupported, "does not report the addresses"},
		{"format", remote.Request{}, nil, "404"},
	} {
		err := s.Call(t.Context(), test.op, test.ask, nil)
		if err == nil || test.kind != nil && !errors.Is(err, test.kind) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s of container %d: %v, want %v and %q", test.op, test.ask.Container, err, test.kind, test.says)
		}
	}
	if n := l.engine.Live(); n != 1 {
		t.Errorf("%d containers, want the one that nobody refused, and may be removed", n)
	}
	if err := s.Call(t.Context(), remote.OpRemove, remote.Request{Container: 1}, nil); err != nil {
		t.Error(err)
	}
}

// The number of containers at once is bounded.
func TestContainersBounded(t *testing.T) {
	l := newTestServer(t, enginetest.FakeConfig{}, func(c *remote.Config) { c.Containers = 2 })
	s := l.dial(t)
	makeOne(t, s, 1)
	makeOne(t, s, 2)
	third := remote.Request{Engine: "fake", Container: 3, Spec: hold()}
	if err := s.Call(t.Context(), remote.OpCreate, third, nil); err == nil ||
		!strings.Contains(err.Error(), "at most 2 containers") {
		t.Errorf("the third container of two: %v", err)
	}
	if err := s.Call(t.Context(), remote.OpRemove, remote.Request{Container: 1}, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Call(t.Context(), remote.OpCreate, third, nil); err != nil {
		t.Errorf("after one was removed: %v", err)
	}
}

// The log tells of every call, of those that failed too.
func TestCallsAreLogged(t *testing.T) {
	l := newTestServer(t, enginetest.FakeConfig{}, func(c *remote.Config) {
		c.Permit = func(s bench.Spec) error {
			if s.Runtime != "" {
				return errors.New("not with that runtime")
			}
			return nil
		}
	})
	s := l.dial(t)
	bad := hold()
	bad.Runtime = "/evil"
	for _, r := range []remote.Request{{Engine: "fake", Spec: bad}, {Engine: "fake", Container: 7, Spec: bad}} {
		for _, op := range []string{remote.OpPrepare, remote.OpCreate} {
			if err := s.Call(t.Context(), op, r, nil); err == nil {
				t.Errorf("%s of %+v succeeds", op, r)
			}
		}
	}
	makeOne(t, s, 8)
	for _, want := range []string{
		`prepare of "fake" failed: not with that runtime`, "create of container 7 failed: not with that runtime",
		"made container 8, ", "start of container 8",
	} {
		until(t, want, func() bool { return l.logged(want) })
	}
}
