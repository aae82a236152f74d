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

// A tool is a program of the host that replaces tare's own load: its server in the
// container, and its client outside.
type tool struct {
	supervise.Program
	unknown    []string                     // options of the workload that it does not have
	serverArgv func(o toolOptions) []string // arguments of the server
	readyLine  string                       // text that the server prints once it listens
	lines      int                          // number of lines of the server's output up to there
	clientArgv func(o toolOptions, server netip.AddrPort) []string
	parse      func(output []byte, o toolOptions) (*load.Report, error)
}

// toolOptions are the options of one run of a tool.
type toolOptions struct {
	params         map[string]string
	port           uint16
	client, server string // the CPUs on which they run; empty = any
}

func (o toolOptions) has(name, value string) bool { return o.params[name] == value }

// usable returns why a tool cannot be used. A nil tool is fine.
func (t *tool) usable(params []bench.Param, given map[string]string) error {
	if t == nil {
		return nil
	}
	if err := t.check(params, given); err != nil {
		return fmt.Errorf("%w: %w", bench.ErrUnsupported, err)
	}
	return t.Find()
}

// check returns which given options a tool does not have. A nil tool is fine.
func (t *tool) check(params []bench.Param, given map[string]string) error {
	if t == nil {
		return nil
	}
	return t.UnknownOptions(params, given, t.unknown...)
}

// server sets up the tool's server for a stage. The server needs a port number: a free
// one of the host if it uses the host's ports or is published.
func (t *tool) server(s *fixture) error {
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
			s.server.Ports[i].Host = outside // the same port for both protocols
		}
	}
	if s.options.has("pin", "yes") {
		client, server := affinity.Apart(s.server.Limits.CPUSet, 1)
		s.options.client, s.options.server = affinity.Format(client), affinity.Format(server)
	}
	s.server.Image, s.clientSpec.Image = "host:"+t.Name, "host:"+t.Name
	s.server.Argv = append([]string{t.Name}, t.serverArgv(s.options)...)
	return nil
}

// measureWith is a trial with a tool.
func (s *fixture) measureWith(ctx context.Context, m bench.Meter, t *tool) error {
	server, err := supervise.Start(ctx, s.task.Engine, s.server, m, "server")
	if err != nil {
		return err
	}
	defer m.Cleanup(server.Remove)
	v := &trial{fixture: s, meter: m, server: server, port: s.options.port}
	if _, err := m.Step("listen", func() error { return t.listens(ctx, server) }); err != nil {
		return err
	}
	at, err := v.addresses(ctx, s.task.Params["protocol"])
	if err != nil {
		return err
	}
	argv := append([]string{t.Name}, t.clientArgv(s.options, at[0])...)
	err = v.runClient(ctx, argv, nil, func(ctx context.Context, client *supervise.Process) error {
		output, err := client.Output(ctx)
		if err != nil {
			return err
		}
		return v.recordOutput(t, output)
	})
	if err != nil {
		return err
	}
	supervise.Record(m, server.Count(ctx))
	return m.Applied(s.server, server.Applied(ctx, m))
}

// listens waits until the server says that it listens.
func (t *tool) listens(ctx context.Context, server *supervise.Process) error {
	text, err := server.AwaitLines(ctx, t.lines)
	if err == nil && !strings.Contains(string(text), t.readyLine) {
		err = t.UnknownOutput(strconv.Quote(t.readyLine), text)
	}
	return err
}

// recordOutput reports the results in the output of a tool's client.
func (v *trial) recordOutput(t *tool, output []byte) error {
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

// toolNamed returns the tool of that name; nil for the empty name.
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
		return "1" // cannot happen: the option was validated
	}
	return strconv.FormatInt(d, 10)
}
