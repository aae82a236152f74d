package party

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/proc"
)

// Ended waits until the process inside has ended, and says how. It is an error
// always, and nothing else.
func (p *Party) Ended(ctx context.Context) error { return p.named(p.ended(ctx)) }

// Address is where a client reaches a port of the party over TCP.
func (p *Party) Address(ctx context.Context, c bench.Clock, port uint16) (at netip.AddrPort, err error) {
	a, ok := bench.As[bench.Addresser](p.engine)
	if !ok {
		return at, fmt.Errorf("%w: engine %s does not tell where its containers are reached", bench.ErrUnsupported, p.engine.Name())
	}
	_, err = c.Step("address", func() (err error) {
		at, err = a.Address(ctx, p.container, bench.Port{Container: port, Protocol: "tcp"})
		return err
	})
	return at, err
}

// Look reads from the kernel what a packet to a port of the party passes, for
// Applied. The port must answer, and nothing may be measured meanwhile.
func (p *Party) Look(ctx context.Context, c bench.Clock, port uint16) error {
	a, ok := bench.As[bench.Addresser](p.engine)
	if !ok {
		return nil
	}
	_, err := c.Step("address", func() error {
		path, err := a.Path(ctx, p.container, bench.Port{Container: port, Protocol: "tcp"})
		if err == nil {
			p.Reached(path)
		}
		return err
	})
	return err
}

// Use is what the processes inside use now; false where the engine does not tell
// which they are, or they have ended.
func (p *Party) Use(ctx context.Context) (proc.Usage, bool) {
	if !p.find(ctx) {
		return proc.Usage{}, false
	}
	pids, err := proc.Descendants("/", p.first.PID)
	if err != nil {
		return proc.Usage{}, false
	}
	var sum proc.Usage
	found := false
	for _, pid := range pids {
		if u, err := proc.Use("/", pid); err == nil { // one may have ended
			sum, found = sum.Plus(u), true
		}
	}
	return sum, found
}

// FreePort is a TCP port of this host that nobody listens on now.
func FreePort() (uint16, error) {
	l, err := net.Listen("tcp4", ":0")
	if err != nil {
		return 0, err
	}
	addr, ok := l.Addr().(*net.TCPAddr)
	if err := l.Close(); err != nil || !ok {
		return 0, errors.Join(err, errors.New("a port without an address"))
	}
	return addr.AddrPort().Port(), nil
}

// Apart divides the CPUs of this process between a client and a server, which may
// run on those of a list of the kernel's form, or on all if that is empty: the
// server gets the last ones, at most half of all, and the client as many others.
// Without two CPUs both are empty: they share.
func Apart(set string) (client, server []int) {
	mine := allowed()
	theirs := mine
	if set != "" {
		theirs = CPUs(set)
	}
	return apart(mine, theirs)
}

func apart(mine, theirs []int) (client, server []int) {
	half := max(1, len(mine)/2)
	server = theirs[max(0, len(theirs)-half):]
	client = slices.DeleteFunc(slices.Clone(mine), func(cpu int) bool { return slices.Contains(server, cpu) })
	if len(client) == 0 || len(server) == 0 {
		return nil, nil
	}
	return client[:min(len(client), half)], server
}

// allowed lists the CPUs that this process may run on; none if nobody tells.
func allowed() (all []int) {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return nil
	}
	for cpu := 0; len(all) < set.Count(); cpu++ {
		if set.IsSet(cpu) {
			all = append(all, cpu)
		}
	}
	return all
}
