package netdev

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/netns"
)

// process starts a process in a network namespace of its own; end ends it.
func process(t *testing.T) (pid int, end func()) {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end = func() {
		_ = cmd.Process.Kill() // it has ended, or then has
		_ = cmd.Wait()         // killed, or waited for before
	}
	t.Cleanup(end)
	return cmd.Process.Pid, end
}

// answers wants the host to reach a process's namespace at an address.
func answers(t *testing.T, pid int, address netip.Addr) {
	t.Helper()
	at := netip.AddrPortFrom(address, 7322).String()
	var l net.Listener
	if err := netns.In(pid, func() (err error) { l, err = net.Listen("tcp4", at); return err }); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }() // nothing was accepted
	conn, err := net.DialTimeout("tcp", at, 10*time.Second)
	if err != nil {
		t.Fatalf("connect to %s in another namespace: %v", at, err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
}

// The host reaches what is on the bridge, also while that of others is taken down.
func TestNetwork(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making a bridge takes root")
	}
	n := &Network{Run: "test-network", Driver: "nothing"}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	var last netip.Addr
	for range 3 {
		pid, end := process(t)
		address, err := n.Join(pid)
		if err != nil {
			t.Fatal(err)
		}
		if address == last {
			t.Errorf("address %v was another's a moment ago, whose namespace may still answer", address)
		}
		answers(t, pid, address)
		end()
		n.Leave(address)
		last = address
	}
	first, _ := process(t)
	second, _ := process(t)
	a, err := n.Join(first)
	b, too := n.Join(second)
	if err := errors.Join(err, too); err != nil || a == b {
		t.Fatalf("addresses %v and %v, %v; want two", a, b, err)
	}
	answers(t, first, a)
	answers(t, second, b)
	bridge := n.bridge
	if link, err := net.InterfaceByIndex(n.index); err != nil ||
		link.HardwareAddr.String() != macAddress(n.subnet.Addr().Next()).String() {
		t.Errorf("bridge %+v, %v: its hardware address changes with those on it", link, err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := List("nothing"); err != nil || slices.Contains(left, bridge) {
		t.Errorf("after Close: %v, %v", left, err)
	}
}

// What fails takes no address.
func TestJoinOfNoProcess(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making a bridge takes root")
	}
	n := &Network{Run: "test-network", Driver: "nothing"}
	if address, err := n.Join(1 << 30); err == nil || len(n.taken) > 0 {
		t.Errorf("Join of no process = %v, %v with %d addresses taken", address, err, len(n.taken))
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
}

// Addresses go round, without those of the network, the host and all of them.
func TestTake(t *testing.T) {
	n := &Network{subnet: netip.MustParsePrefix("10.213.0.0/29"), taken: map[netip.Addr]bool{}}
	n.last = n.subnet.Addr().Next()
	var got []string
	take := func() bool {
		a, err := n.take()
		if err == nil {
			got = append(got, a.String())
		}
		return err == nil
	}
	for range 2 {
		if !take() {
			t.Fatal("no address is free")
		}
	}
	n.Leave(netip.MustParseAddr("10.213.0.2"))
	n.Leave(netip.Addr{})
	for take() {
	}
	for range 2 { // also the one that was given out last
		n.Leave(netip.MustParseAddr("10.213.0.4"))
		take()
	}
	if want := "10.213.0.2 10.213.0.3 10.213.0.4 10.213.0.5 10.213.0.6 10.213.0.2 " +
		"10.213.0.4 10.213.0.4"; strings.Join(got, " ") != want {
		t.Errorf("addresses %q, want %s", got, want)
	}
}

func TestHardware(t *testing.T) {
	if got := macAddress(netip.MustParseAddr("10.213.0.2")).String(); got != "02:42:0a:d5:00:02" {
		t.Errorf("hardware address %s, want one made of the address", got)
	}
}

func TestCheck(t *testing.T) {
	for i, spec := range []bench.Spec{{}, {Network: "none"}, {Network: "host"}} {
		if err := Check(spec); err != nil {
			t.Errorf("%s: %v", strconv.Itoa(i), err)
		}
	}
	if err := Check(bench.Spec{Network: "bridge", Reach: bench.ReachPublished}); !errors.Is(err, bench.ErrUnsupported) {
		t.Errorf("a published port: %v, want bench.ErrUnsupported", err)
	}
}
