package cli

import (
	"net"
	"strings"
	"testing"
)

// What a server tells its clients to type works: it names an address at which it listens.
func TestServerIsReachedAt(t *testing.T) {
	for listen, want := range map[string]string{
		"0.0.0.0:8273":     "vm:8273",
		"[::]:8273":        "vm:8273",
		"192.0.2.1:8273":   "192.0.2.1:8273",
		"127.0.0.1:18273":  "127.0.0.1:18273",
		"[::1]:18273":      "[::1]:18273",
		"[2001:db8::1]:80": "[2001:db8::1]:80",
	} {
		at, err := net.ResolveTCPAddr("tcp", listen)
		if err != nil {
			t.Fatal(err)
		}
		target, whence := advertisedAddress(at, "vm")
		if target != want || strings.Contains(whence, "this machine") != at.IP.IsLoopback() {
			t.Errorf("listening at %s: %s %q, want %s", listen, whence, target, want)
		}
	}
}
