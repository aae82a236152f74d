package netpath

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
)

// A port that is free in both protocols can be had in both.
func TestFreePort(t *testing.T) {
	for _, at := range []netip.Addr{netip.IPv4Unspecified(), netip.MustParseAddr("127.0.0.1")} {
		port, err := FreePort(at, "tcp", "udp")
		if err != nil || port == 0 {
			t.Fatalf("%v: port %d, %v", at, port, err)
		}
		on := fmt.Sprintf("%v:%d", at, port)
		l, err := net.Listen("tcp4", on)
		if err != nil {
			t.Fatal(err)
		}
		c, err := net.ListenPacket("udp4", on)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if port, err := FreePort(netip.MustParseAddr("192.0.2.1"), "tcp"); err == nil {
		t.Errorf("port %d is free at an address that this host does not have", port)
	}
}
