package enginetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/netdev"
	"github.com/tare-bench/tare/internal/kernel/netns"
	"github.com/tare-bench/tare/internal/kernel/netpath"
)

// A networkPath is a network with a way to reach a container in it.
type networkPath struct {
	feature        Feature
	network, reach string
	// path is what Path must say, in order; an entry that ends in "*" stands for
	// every word that begins like it.
	path []string
}

// OwnNetworks are the features that an engine lacks if it only has the networks none and host.
func OwnNetworks() []Feature {
	return []Feature{NetworkBridge, ReachBridge, NetworkMacvlan, NetworkSlirp, NetworkPasta, ReachPublished, ReachPeer}
}

// BareNetworks are the features that an engine lacks here if its bridge is netdev's.
func BareNetworks() []Feature {
	if os.Geteuid() != 0 {
		return OwnNetworks()
	}
	lacks := []Feature{NetworkMacvlan, NetworkSlirp, NetworkPasta, ReachPublished}
	if netdev.Check(bench.Spec{Network: "bridge", Reach: bench.ReachPeer}) != nil { // as its own tests hold it to
		lacks = append(lacks, ReachPeer)
	}
	return lacks
}

// networkPaths are the networks by which a client reaches a container. The middle of a published port's
// path is checked by each driver's own tests, because it depends on the engine's configuration.
func networkPaths() []networkPath {
	return []networkPath{
		{NetworkHost, "host", "", []string{"loopback"}},
		{ReachBridge, "bridge", "", []string{"bridge*", "veth"}},
		{ReachPublished, "bridge", bench.ReachPublished, []string{"loopback", "*", "bridge *", "veth"}},
		{ReachPeer, "bridge", bench.ReachPeer, []string{"bridge*", "veth"}},
		{NetworkMacvlan, "macvlan", bench.ReachPeer, []string{"macvlan"}},
		{NetworkSlirp, "slirp4netns", bench.ReachPublished, []string{"loopback", "*", "*"}},
		{NetworkPasta, "pasta", bench.ReachPublished, []string{"loopback", "pasta", "*"}},
	}
}

// "Where a client on this host connects to for the port p, by the way that
// Spec.Reach names", and what is on that way.
func reaches(t *testing.T, s *suite) {
	for _, w := range networkPaths() {
		t.Run(strings.TrimSpace(w.network+" "+w.reach), func(t *testing.T) {
			var ports []bench.Port
			for _, protocol := range []string{"tcp", "udp"} {
				port, err := netpath.FreePort(netip.IPv4Unspecified(), protocol)
				noError(t, err)
				ports = append(ports, bench.Port{Container: port, Protocol: protocol})
			}
			s.reach(t, w, ports)
		})
	}
}

// specFor changes a Spec so that the container is reached by a way.
func (s *suite) specFor(w networkPath, ports []bench.Port) bench.Spec {
	spec := s.spec("hold")
	spec.Network, spec.Reach, spec.Ports = w.network, w.reach, ports
	return spec
}

func (s *suite) reach(t *testing.T, w networkPath, ports []bench.Port) {
	t.Helper()
	spec := s.specFor(w, ports)
	if s.Remote && w.network != "host" && w.reach != bench.ReachPublished {
		s.refuses(t, spec) // that address is for its own machine
		return
	}
	if s.refused(t, w.feature, spec) || s.Sandboxed { // whose network is not the kernel's
		return
	}
	e, ok := bench.As[bench.Addresser](s.engine)
	if !ok {
		t.Fatal("the engine is no bench.Addresser")
	}
	x := s.ready(t, spec, "ready\n")
	from := os.Getpid()
	if w.reach == bench.ReachPeer && os.Geteuid() == 0 {
		from = s.ready(t, s.specFor(w, ports), "ready\n").pid(t)
	}
	addresses := map[bench.Port]netip.AddrPort{}
	for _, p := range ports {
		address, err := e.Address(t.Context(), x.Container, p)
		if err != nil {
			t.Fatalf("Address of %s: %v", p.Protocol, err)
		}
		addresses[p] = address
		s.reached(t, e, w, x, p, address, from)
	}
	// Now that it runs, the kernel can be asked.
	if applied, err := x.Inspect(t.Context()); err != nil || bench.Attest(x.spec, applied) != nil {
		t.Errorf("Inspect = %+v, %v; want what was asked for", applied, errors.Join(err, bench.Attest(x.spec, applied)))
	}
	reachGone(t, e, x, addresses)
}

// reached sends a request from the beginning of the way, which is the network of a process, and
// checks its path.
func (s *suite) reached(
	t *testing.T, e bench.Addresser, w networkPath, x *trial, p bench.Port, address netip.AddrPort, from int,
) {
	t.Helper()
	if os.Geteuid() != 0 && w.network != "host" {
		path, err := e.Path(t.Context(), x.Container, p)
		if err != nil || len(path) == 0 || w.reach == bench.ReachPublished && path[0] != w.path[0] {
			t.Errorf("Path = %q, %v; want some, if only unknown; and of %q what is the host's", path, err, w.path)
		}
		t.Logf("%s: %v by %q; to answer inside another network takes root", p.Protocol, address, path)
		return
	}
	Echo(t, x.pid(t), p)
	if err := netns.In(from, func() error { return ask(p.Protocol, address) }); err != nil {
		t.Errorf("a client of %s %v over network %s: %v", p.Protocol, address, w.network, err)
	}
	want := slices.Clone(w.path)
	if s.Remote {
		want[0] = "network" // instead of loopback
	}
	path, err := e.Path(t.Context(), x.Container, p)
	if err != nil || !slices.EqualFunc(path, want, matches) {
		t.Errorf("Path = %q, %v; want %q", path, err, want)
	}
	t.Logf("%s: %v by %q", p.Protocol, address, path)
}

// "Of a container that has exited it is the address that was, or an error that is not
// ErrUnsupported."
func reachGone(t *testing.T, e bench.Addresser, x *trial, were map[bench.Port]netip.AddrPort) {
	t.Helper()
	noError(t, syscall.Kill(x.pid(t), syscall.SIGTERM))
	x.wait(t)
	for p, was := range were {
		if at, err := e.Address(t.Context(), x.Container, p); errors.Is(err, bench.ErrUnsupported) ||
			err == nil && at != was {
			t.Errorf("Address of a container that has exited = %v, %v; want %v, or another error", at, err, was)
		}
	}
}

func matches(word, pattern string) bool {
	begin, any := strings.CutSuffix(pattern, "*")
	return word == pattern || any && word != "" && word != "unknown" && strings.HasPrefix(word, begin)
}

// Echo echoes data at a port in the network of a process, until the test ends. The socket is in
// that network; this process answers.
func Echo(t testing.TB, pid int, p bench.Port) {
	t.Helper()
	at := fmt.Sprintf(":%d", p.Container)
	var packets net.PacketConn
	var streams net.Listener
	err := netns.In(pid, func() (err error) {
		if p.Protocol == "udp" {
			packets, err = net.ListenPacket("udp4", at)
		} else {
			streams, err = net.Listen("tcp4", at)
		}
		return err
	})
	if err != nil {
		t.Fatalf("listen in the network of process %d: %v", pid, err)
	}
	if p.Protocol == "udp" {
		t.Cleanup(func() { _ = packets.Close() }) // everything has been answered
		go echoPackets(packets)
		return
	}
	t.Cleanup(func() { _ = streams.Close() }) // as above
	go echoStreams(streams)
}

func echoPackets(c net.PacketConn) {
	buf := make([]byte, 1500)
	for {
		n, from, err := c.ReadFrom(buf)
		if err != nil {
			return
		}
		_, _ = c.WriteTo(buf[:n], from) // the client notices
	}
}

func echoStreams(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			_, _ = io.Copy(c, c) // the client notices
			_ = c.Close()
		}()
	}
}

// ask sends a word and expects it back. Lost UDP datagrams are sent again.
func ask(protocol string, to netip.AddrPort) error {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	for {
		err := exchange(ctx, protocol, to)
		if err == nil || ctx.Err() != nil || protocol == "tcp" {
			return err
		}
	}
}

func exchange(ctx context.Context, protocol string, to netip.AddrPort) error {
	conn, err := new(net.Dialer).DialContext(ctx, protocol, to.String())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // everything has been said
	deadline, _ := ctx.Deadline()
	if protocol == "udp" {
		deadline = time.Now().Add(time.Second) // then it counts as lost
	}
	if err := conn.SetDeadline(deadline); err != nil {
		return err
	}
	const word = "tare"
	if _, err := conn.Write([]byte(word)); err != nil {
		return err
	}
	answer := make([]byte, len(word))
	if _, err := io.ReadFull(conn, answer); err != nil {
		return err
	}
	if string(answer) != word {
		return fmt.Errorf("sent %q, got %q back", word, answer)
	}
	return nil
}
