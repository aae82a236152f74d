package remote_test

import (
	"context"
	"io"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/remote"
	"github.com/tare-bench/tare/internal/remote/peer"
)

// A network that goes away without a word ends the session on both sides, and what was made is
// removed. In the short form, package peer sees that both sides end: in less than 20 s.
func TestSilence(t *testing.T) {
	if testing.Short() {
		return
	}
	t.Parallel() // it waits for signs of life
	l := &testServer{engine: enginetest.NewFake(enginetest.FakeConfig{})}
	pipe := func() (r, w *os.File) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Close(); _ = w.Close() }) // they may be closed
		return r, w
	}
	serverIn, wireOut := pipe()
	wireIn, clientOut := pipe()
	clientIn, backOut := pipe()
	backIn, serverOut := pipe()
	silent := make(chan struct{})
	var relays, server sync.WaitGroup
	relays.Go(func() { relay(wireOut, wireIn, silent) })
	relays.Go(func() { relay(backOut, backIn, silent) })
	server.Go(func() {
		err := remote.Serve(context.Background(), serverIn, serverOut, remote.Config{
			Version: "v1", Address: netip.MustParseAddr("127.0.0.1"),
			Machine: func(context.Context) remote.Machine { return remote.Machine{} },
			Open:    func() (remote.EngineHost, error) { return l, nil },
			Log:     func(string) {},
		})
		if err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	s, err := peer.Dial(t.Context(), peer.Target{Host: "there", Version: "v1"}, clientIn, clientOut)
	if err != nil {
		t.Fatal(err)
	}
	makeOne(t, s, 1)
	close(silent)
	select {
	case <-s.Lost():
	case <-time.After(testTimeout):
		t.Error("the client does not notice that the network is gone")
	}
	server.Wait()
	if n := l.engine.Live(); n != 0 {
		t.Errorf("%d containers are left", n)
	}
	_ = s.Close() // it is lost
	_, _, _ = wireIn.Close(), backIn.Close(), serverOut.Close()
	relays.Wait()
}

// relay copies what it reads, until it is to be silent: then it reads, and passes nothing on.
func relay(to, from *os.File, silent <-chan struct{}) {
	buffer := make([]byte, 1<<10)
	for {
		n, err := from.Read(buffer)
		select {
		case <-silent:
			_, _ = io.Copy(io.Discard, from)
			return
		default:
		}
		if err != nil {
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}
