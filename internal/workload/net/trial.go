package net

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/party"
)

// A meeting is one trial: a server that runs, and where it is reached.
type meeting struct {
	*stage
	meter  bench.Meter
	server *party.Party
	port   uint16 // of the server, where it is
}

// meet starts the server. The caller ends it.
func (s *stage) meet(ctx context.Context, m bench.Meter, ready func(context.Context, *party.Party) (uint16, error)) (*meeting, error) {
	server, err := party.Start(ctx, s.task.Engine, s.server, m, "server")
	if err != nil {
		return nil, err
	}
	v := &meeting{stage: s, meter: m, server: server}
	if _, err = m.Step("listen", func() error { v.port, err = ready(ctx, server); return err }); err != nil {
		server.End()
		return nil, err
	}
	return v, nil
}

// listening waits for the agent's server and returns its port.
func listening(ctx context.Context, p *party.Party) (uint16, error) {
	reports, err := p.Reports(ctx, 1)
	if err != nil {
		return 0, err
	}
	port, err := strconv.ParseUint(reports[0].Facts["port"], 10, 16)
	if err != nil || port == 0 {
		return 0, fmt.Errorf("server: it does not say where it listens: %.80q", reports[0].Facts["port"])
	}
	return uint16(port), nil
}

// addresses finds out where the server is reached over each of the protocols,
// and attests what was applied with the path to the last.
func (v *meeting) addresses(ctx context.Context, protocols ...string) ([]netip.AddrPort, error) {
	addresser, ok := bench.As[bench.Addresser](v.task.Engine)
	if !ok {
		return nil, fmt.Errorf("%w: engine %s has no addresses", bench.ErrUnsupported, v.task.Engine.Name())
	}
	all := make([]netip.AddrPort, len(protocols))
	applied := v.server.Applied(ctx)
	_, err := v.meter.Step("address", func() (err error) {
		for i, protocol := range protocols {
			port := bench.Port{Container: v.port, Protocol: protocol}
			if all[i], err = addresser.Address(ctx, v.server.Container(), port); err != nil {
				return err
			}
			applied.Path, err = addresser.Path(ctx, v.server.Container(), port)
		}
		return err
	})
	return all, errors.Join(err, v.meter.Applied(v.stage.server, applied))
}

// ask runs a client until it has reported.
func (v *meeting) ask(ctx context.Context, argv []string, answer func(context.Context, *party.Party) error) error {
	spec := v.beside
	spec.Argv = argv
	client, err := party.Start(ctx, v.client, spec, v.meter, "client")
	if err != nil {
		return err
	}
	defer client.End()
	if err := answer(ctx, client); err != nil {
		return errors.Join(err, v.lost(ctx))
	}
	return nil
}

// lost says how the server has ended, if it has: a client tells only that it
// does not answer.
func (v *meeting) lost(ctx context.Context) error {
	const soon = 200 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	if exit, err := v.server.Container().Wait(ctx); err == nil {
		return fmt.Errorf("server: it ended with %v while the client was busy", exit)
	}
	return nil
}

// measure runs one of the agent's loads against the agent's server, and reports
// what it found. Protocol is the one that is measured.
func (s *stage) measure(ctx context.Context, m bench.Meter, name, protocol string, options map[string]string) error {
	v, err := s.meet(ctx, m, listening)
	if err != nil {
		return err
	}
	defer v.server.End()
	other := map[string]string{"tcp": "udp", "udp": "tcp"}[protocol]
	at, err := v.addresses(ctx, other, protocol)
	if err != nil {
		return err
	}
	options["addr"], options["udp"] = at[0].String(), at[1].String()
	if protocol == "tcp" {
		options["addr"], options["udp"] = options["udp"], options["addr"]
	}
	argv := party.Loads(append([]string{name}, load.Words(options)...))
	return v.ask(ctx, argv, func(ctx context.Context, client *party.Party) error {
		reports, err := client.Reports(ctx, 1)
		if err != nil {
			return err
		}
		v.record(reports[0])
		party.Record(m, v.server.Count(ctx))
		return nil
	})
}

// record hands a load's report to the meter.
func (v *meeting) record(r *load.Report) {
	for name, value := range r.Values {
		v.meter.Record(name, value)
	}
	for name, d := range r.Distributions {
		v.meter.Distribution(name, string(d))
	}
	_, remote := bench.As[bench.Remoter](v.task.Engine)
	for _, code := range r.Notes {
		if code != bench.NoteSameCPU || !remote { // CPUs of two machines only have the same numbers
			v.meter.Note(code)
		}
	}
}
