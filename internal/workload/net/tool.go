package net

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/affinity"
	"github.com/tare-bench/tare/internal/kernel/netpath"
	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/supervise"
)

// A tool is a program of the host that measures in place of tare's own: its
// server in the container, its client beside it.
type tool struct {
	supervise.Program
	unknown []string                     // options of the workload
	serve   func(o toolOptions) []string // arguments of the server
	says    string                       // what the server prints once it listens
	lines   int                          // in how many lines
	ask     func(o toolOptions, server netip.AddrPort) []string
	parse   func(output []byte, o toolOptions) (*load.Report, error)
}

// toolOptions are what a tool is asked for.
type toolOptions struct {
	params         map[string]string
	port           uint16
	client, server string // the CPUs where they run; empty = anywhere
}

func (o toolOptions) has(name, value string) bool { return o.params[name] == value }

// find reports why a tool cannot be used; nil is none.
func (t *tool) find(params []bench.Param, given map[string]string) error {
	if t == nil {
		return nil
	}
	if err := t.check(params, given); err != nil {
		return fmt.Errorf("%w: %w", bench.ErrUnsupported, err)
	}
	return t.Find()
}

// check reports which options a tool does not know; nil is none.
func (t *tool) check(params []bench.Param, given map[string]string) error {
	if t == nil {
		return nil
	}
	return t.Unknown(params, given, t.unknown...)
}

// server is the tool's, for a stage. It has to be told its port: one that is free
// where it has the host's, or where it is published.
func (t *tool) server(s *stage) error {
	outside, err := netpath.FreePort(netip.IPv4Unspecified(), "tcp", "udp")
	if err != nil {
		return err
	}
	s.tool, s.options = t, toolOptions{params: s.task.Params, port: outside}
	if inside := s.port(); inside != 0 {
		s.options.port = inside
	}
	if s.server.Reach == bench.ReachPublished {
		for i := range s.server.Ports {
			s.server.Ports[i].Host = outside // the same one for both protocols
		}
	}
	if s.options.has("pin", "yes") {
		client, server := affinity.Apart(s.server.Limits.CPUSet, 1)
		s.options.client, s.options.server = affinity.Format(client), affinity.Format(server)
	}
	s.server.Image, s.beside.Image = "host:"+t.Name, "host:"+t.Name
	s.server.Argv = append([]string{t.Name}, t.serve(s.options)...)
	return nil
}

// measureWith is a trial with a tool.
func (s *stage) measureWith(ctx context.Context, m bench.Meter, t *tool) error {
	server, err := supervise.Start(ctx, s.task.Engine, s.server, m, "server")
	if err != nil {
		return err
	}
	defer m.Cleanup(server.Remove)
	v := &meeting{stage: s, meter: m, server: server, port: s.options.port}
	if _, err := m.Step("listen", func() error { return t.listens(ctx, server) }); err != nil {
		return err
	}
	at, err := v.addresses(ctx, s.task.Params["protocol"])
	if err != nil {
		return err
	}
	argv := append([]string{t.Name}, t.ask(s.options, at[0])...)
	err = v.ask(ctx, argv, func(ctx context.Context, client *supervise.Process) error {
		output, err := client.Output(ctx)
		if err != nil {
			return err
		}
		return v.tell(t, output)
	})
	if err != nil {
		return err
	}
	supervise.Record(m, server.Count(ctx))
	return m.Applied(s.server, server.Applied(ctx, m))
}

// listens waits until the server says so.
func (t *tool) listens(ctx context.Context, server *supervise.Process) error {
	text, err := server.Lines(ctx, t.lines)
	if err == nil && !strings.Contains(string(text), t.says) {
		err = t.Foreign(strconv.Quote(t.says), text)
	}
	return err
}

// tell reports what a client of the tool's has printed.
func (v *meeting) tell(t *tool, output []byte) error {
	report, err := t.parse(output, v.options)
	if err != nil {
		return err
	}
	if v.options.has("pin", "yes") && v.options.client == "" {
		report.Notes = append(report.Notes, supervise.NoteSameCPU)
	}
	v.record(report)
	return nil
}

// toolNamed is the tool of that name among some; nil for the empty name.
func toolNamed(name string, tools ...*tool) *tool {
	i := slices.IndexFunc(tools, func(t *tool) bool { return t.Name == name })
	if i < 0 {
		return nil
	}
	return tools[i]
}

// seconds is a duration for a tool that takes whole seconds: at least one.
func seconds(text string) string {
	d, err := parseSeconds(text)
	if err != nil {
		return "1" // the option was held to its rule before
	}
	return strconv.FormatInt(d, 10)
}
