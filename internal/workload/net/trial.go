package net

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/load/network"
	"github.com/tare-bench/tare/internal/supervise"
)

// A trial is one trial: a running server, and its port.
type trial struct {
	*fixture
	meter  bench.Meter
	server *supervise.Process
	port   uint16 // of the server, inside
}

// portOf returns the port on which the agent's server listens, from its report.
func portOf(r *load.Report) (uint16, error) {
	port, err := strconv.ParseUint(r.Facts["port"], 10, 16)
	if err != nil || port == 0 {
		return 0, fmt.Errorf("server: it reports no valid port: %.80q", r.Facts["port"])
	}
	return uint16(port), nil
}

// addresses returns the address of the server for each of the protocols, and reads the
// path of the last one.
func (v *trial) addresses(ctx context.Context, protocols ...string) ([]netip.AddrPort, error) {
	addresser, ok := bench.As[bench.Addresser](v.task.Engine)
	if !ok {
		return nil, fmt.Errorf("%w: engine %s has no addresses", bench.ErrUnsupported, v.task.Engine.Name())
	}
	all := make([]netip.AddrPort, len(protocols))
	_, err := v.meter.Step("address", func() (err error) {
		for i, protocol := range protocols {
			port := bench.Port{Container: v.port, Protocol: protocol}
			if all[i], err = addresser.Address(ctx, v.server.Container(), port); err != nil {
				return err
			}
		}
		// The one that is measured is the last.
		port := bench.Port{Container: v.port, Protocol: protocols[len(protocols)-1]}
		path, err := addresser.Path(ctx, v.server.Container(), port)
		if err == nil {
			v.server.SetPath(path)
		}
		return err
	})
	return all, err
}

// runClient runs a client until it has reported.
func (v *trial) runClient(
	ctx context.Context, argv []string, turns bench.Turns, answer func(context.Context, *supervise.Process) error,
) error {
	if err := v.server.CheckTurns(ctx, turns); err != nil {
		return err
	}
	spec := v.clientSpec
	spec.Argv = argv
	client, err := supervise.Start(ctx, v.client, spec, v.meter, "client")
	if err != nil {
		return err
	}
	defer v.meter.Cleanup(client.Remove)
	if err := client.TakeTurns(ctx, turns); err != nil {
		return errors.Join(err, v.serverExit(ctx))
	}
	if err := answer(ctx, client); err != nil {
		return errors.Join(v.withAdvice(err), v.serverExit(ctx))
	}
	return nil
}

// withAdvice says of a server on another machine that cannot be reached what may be the reason.
func (v *trial) withAdvice(err error) error {
	_, remote := bench.As[bench.Remoter](v.task.Engine)
	if !remote || !strings.Contains(err.Error(), network.ErrUnreachable.Error()) {
		return err
	}
	return fmt.Errorf("%w: it is the address to which ssh connected, as that machine sees it, or the one that was named: "+
		"behind NAT, name another one with option address of the engine; a firewall must let the port through", err)
}

// serverExit returns how the server has ended, if it has: a client knows only that the server
// does not answer.
func (v *trial) serverExit(ctx context.Context) error {
	const soon = 200 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	if exit, err := v.server.Container().Wait(ctx); err == nil {
		return fmt.Errorf("server: it ended with %v while the client ran", exit)
	}
	return nil
}

// measure runs one of the agent's loads against the agent's server, and reports its
// results. protocol is the one to measure.
func (v *trial) measure(ctx context.Context, name, protocol string, options map[string]string) error {
	other := map[string]string{"tcp": "udp", "udp": "tcp"}[protocol]
	at, err := v.addresses(ctx, other, protocol)
	if err != nil {
		return err
	}
	options["addr"], options["udp"] = at[0].String(), at[1].String()
	if protocol == "tcp" {
		options["addr"], options["udp"] = options["udp"], options["addr"]
	}
	turns := v.task.Turns
	return v.runClient(ctx, supervise.Loads(turns, supervise.LoadOf(name, options)), turns,
		func(ctx context.Context, client *supervise.Process) error {
			reports, err := client.Reports(ctx, 1)
			if err == nil {
				v.record(reports[0])
			}
			return err
		})
}

// record hands a report to the meter.
func (v *trial) record(r *load.Report) {
	if _, remote := bench.As[bench.Remoter](v.task.Engine); remote {
		// The CPUs of two machines have the same numbers, but are not the same.
		r.Notes = slices.DeleteFunc(r.Notes, func(code string) bool { return code == supervise.NoteSameCPU })
	}
	supervise.RecordReport(v.meter, r)
}
