package remote_test

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/remote"
)

// A pausedReader passes bytes on until it is told to keep them, and closes nothing: a
// network that is gone.
type pausedReader struct {
	io.Reader
	silent <-chan struct{}
}

func (m pausedReader) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	select {
	case <-m.silent:
		select {}
	default:
		return n, err
	}
}

// A network that goes away without a word ends the session on both sides, and what
// was made is removed.
func TestSilence(t *testing.T) {
	t.Parallel() // it waits for signs of life
	l := newTestServer(t, enginetest.FakeConfig{}, nil)
	between, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	silent := make(chan struct{})
	var ends sync.WaitGroup
	ends.Go(func() { forward(t, between, l.address, silent) })
	target := l.target
	target.Address = between.Addr().String()
	s, err := remote.Dial(t.Context(), target)
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
	until(t, "the end", func() bool { return l.logged("everything that it made is removed") })
	if n := l.engine.Live(); n != 0 {
		t.Errorf("%d containers are left", n)
	}
	_ = s.Close()       // it is lost
	_ = between.Close() // nobody else comes
	ends.Wait()
}

// forward connects who comes first with an address.
func forward(t *testing.T, from net.Listener, to string, silent <-chan struct{}) {
	near, err := from.Accept()
	if err != nil {
		t.Error(err)
		return
	}
	distant, err := net.Dial("tcp", to)
	if err != nil {
		t.Error(err)
		return
	}
	go func() { _, _ = io.Copy(distant, pausedReader{near, silent}) }() // for ever, once it is silent
	go func() { _, _ = io.Copy(near, pausedReader{distant, silent}) }()
	<-silent
}
