package proc_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/tare-bench/tare/internal/kernel/proc"
)

// A socket knows who listens at its other end; a connection of another kind
// does not.
func TestPeer(t *testing.T) {
	for network, want := range map[string]int{"unix": os.Getpid(), "tcp": 0} {
		address := "127.0.0.1:0"
		if network == "unix" {
			address = filepath.Join(t.TempDir(), "socket")
		}
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }() // nothing was sent
		conn, err := net.Dial(network, l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }() // nothing was sent
		if got := proc.Peer(conn); got != want {
			t.Errorf("Peer over %s = %d, want %d", network, got, want)
		}
	}
}
