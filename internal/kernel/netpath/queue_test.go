package netpath

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/netns"
)

// Others make interfaces while the kernel's table of them is read: then it is read
// again.
func TestWhileInterfacesCome(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making a network namespace takes root")
	}
	pid := other(t)
	h, err := openNetlink(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	made := make(chan error, 1)
	go func() { made <- bridges(h, 90) }() // fewer than the times that it is read again
	for {
		_, err := Queues(pid)
		if err == nil {
			_, err = Attachment(pid)
		}
		if err != nil {
			t.Error(err)
		}
		select {
		case err := <-made:
			if err != nil {
				t.Error(err)
			}
			return
		default:
		}
	}
}

// bridges makes so many.
func bridges(h *netlink.Handle, n int) error {
	for i := range n {
		if err := h.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: fmt.Sprintf("b%d", i)}}); err != nil {
			return err
		}
	}
	return nil
}

// other starts a process in a network namespace of its own.
func other(t *testing.T) int {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // killed
	})
	return cmd.Process.Pid
}

// A peer is on the container's network: it does not matter whether this host has a way
// there, or a way out at all.
func TestPeerWithoutRoute(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root makes network namespaces")
	}
	outside, inside := other(t), other(t) // neither has a route
	err := netns.In(outside, func() error {
		h, err := netlink.NewHandle()
		if err != nil {
			return err
		}
		defer h.Close()
		pair := netlink.NewVeth(netlink.LinkAttrs{Name: "outer"})
		pair.PeerName, pair.PeerNamespace = "inner", netlink.NsPid(inside)
		return h.LinkAdd(pair)
	})
	if err != nil {
		t.Fatal(err)
	}
	to := target{"tcp", netip.MustParseAddrPort("192.0.2.7:80")}
	err = netns.In(outside, func() error {
		if _, err := pathInto(t.Context(), inside, to, ""); !errors.Is(err, unix.ENETUNREACH) {
			t.Errorf("from this host there is no route, and its way is: %v", err)
		}
		got, err := pathInto(t.Context(), inside, to, bench.ReachPeer)
		if err == nil && len(got) == 0 {
			err = errors.New("no word")
		}
		return err
	})
	if err != nil {
		t.Errorf("the way of a peer: %v", err)
	}
}

// A queue that gives packets out at a rate is found, whoever set it; the kernel's own ones are none.
func TestRateLimit(t *testing.T) {
	if got, err := RateLimit(os.Getpid()); err != nil || got != "" {
		t.Errorf("of this network namespace: %q, %v; want none, whatever is there", got, err)
	}
	if os.Geteuid() != 0 {
		t.Skip("only root makes network namespaces")
	}
	pid := other(t)
	h, err := openNetlink(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	pair := netlink.NewVeth(netlink.LinkAttrs{Name: "a"})
	pair.PeerName = "b"
	if err := errors.Join(h.LinkAdd(pair), h.LinkSetUp(pair)); err != nil {
		t.Fatal(err)
	}
	if got, err := RateLimit(pid); err != nil || got != "" {
		t.Errorf("without one: %q, %v", got, err)
	}
	limit := &netlink.Tbf{
		QdiscAttrs: netlink.QdiscAttrs{
			LinkIndex: pair.Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT,
		},
		Rate: 1 << 20, Limit: 1 << 20, Buffer: 1 << 16,
	}
	if err := h.QdiscAdd(limit); err != nil {
		t.Skipf("this kernel has no tbf: %v", err)
	}
	if got, err := RateLimit(pid); err != nil || got != "tbf" {
		t.Errorf("with one: %q, %v; want tbf", got, err)
	}
}

// gVisor takes the address of a container's interface for its own network stack: the
// container has a network all the same. An interface that is down is none.
func TestInterfaceWithoutAddress(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root makes network namespaces")
	}
	pid := other(t)
	h, err := openNetlink(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "b0"}}
	if err := h.LinkAdd(bridge); err != nil {
		t.Fatal(err)
	}
	if l, err := Attachment(pid); err != nil || l.Kind != "" {
		t.Errorf("with an interface that is down: %+v, %v; want none", l, err)
	}
	if err := h.LinkSetUp(bridge); err != nil {
		t.Fatal(err)
	}
	if l, err := Attachment(pid); err != nil || l.Kind != "bridge" {
		t.Errorf("with an interface that is up: %+v, %v; want it", l, err)
	}
}
