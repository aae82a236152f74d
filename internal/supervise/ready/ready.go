// Package ready starts a service in a container and finds out when it is ready: its
// port accepts a connection, it answers over HTTP, it prints a line, or its health check
// succeeds.
//
// Polling starts with an interval of half a millisecond, and continues with one percent
// of the time waited. So the time of readiness is known that precisely, and polling
// takes little of the CPU that is measured.
package ready

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/supervise"
)

// The ways in which a service is ready.
const (
	Port   = "port"   // a connection to its port is accepted
	HTTP   = "http"   // it answers a request with a status of 200 to 399
	Log    = "log"    // a line that it prints matches
	Health = "health" // a program in its container ends with 0
)

// A Condition says when a service is ready.
type Condition struct {
	kind    string
	port    uint16
	path    string
	line    *regexp.Regexp
	command []string
	timeout time.Duration
}

// Params returns the options that Parse reads, for a workload. First is the default of
// option ready; it may be empty, for a workload that needs no service.
func Params(first string) []bench.Param {
	ways := []string{Port, HTTP, Log, Health}
	if first == "" {
		ways = append(ways, "")
	}
	return []bench.Param{
		{Name: "ready", Default: first, Valid: bench.OneOf(ways...), Doc: "when the service counts as ready: port " +
			"(it accepts a connection), " +
			"http (it answers a GET of path with a status of 200 to 399), log (it prints a line that matches text), " +
			"health (command exits with 0 in the container)"},
		{Name: "port", Default: "", Valid: validPort, Doc: "TCP port of the service inside; " +
			"tare's own service uses 4811, or a free port on network host"},
		{Name: "path", Default: "/", Valid: validPath, Doc: "with ready: http: the path and query to request"},
		{Name: "text", Default: "", Valid: validText, Doc: "with ready: log: a regular expression (RE2) " +
			"that a line of standard output or error must match"},
		{Name: "command", Default: "", Doc: "with ready: health: program and arguments, as a list; " +
			"default: the image's HEALTHCHECK"},
		{Name: "timeout", Default: "20s", Valid: validTimeout, Doc: "time after which a service that is not ready " +
			"has failed; the timeouts of operation and trial apply too"},
	}
}

// Parse reads the options. Without option ready, the Condition holds at once.
func Parse(params map[string]string) (Condition, error) {
	c := Condition{kind: params["ready"], path: params["path"]}
	var errs [3]error
	if text := params["port"]; text != "" {
		c.port, errs[0] = parsePort(text)
	}
	c.line, errs[1] = regexp.Compile(params["text"])
	c.timeout, errs[2] = time.ParseDuration(params["timeout"])
	if command := params["command"]; command != "" {
		c.command = strings.Split(command, ",")
	}
	return c, errors.Join(errs[:]...)
}

// WithPort returns a Condition with a port, unless it has one.
func (c Condition) WithPort(port uint16) Condition {
	if c.port == 0 {
		c.port = port
	}
	return c
}

// WithCommand returns a Condition with a health check, unless it has one.
func (c Condition) WithCommand(argv []string) Condition {
	if c.command == nil {
		c.command = argv
	}
	return c
}

// Connects reports whether the Condition needs a connection to the service's port.
func (c Condition) Connects() bool { return c.kind == Port || c.kind == HTTP }

// Polls reports whether it is looked from time to time, from outside, whether the Condition holds.
func (c Condition) Polls() bool { return c.Connects() }

// IsNone reports whether the Condition is empty, so that every service meets it.
func (c Condition) IsNone() bool { return c.kind == "" }

// Port returns the port on which the service listens inside; 0 = unknown.
func (c Condition) Port() uint16 { return c.port }

// Check returns why an engine cannot check the Condition for spec; the error wraps
// bench.ErrUnsupported.
func (c Condition) Check(e bench.Engine, spec bench.Spec) error {
	var why string
	_, reachable := bench.As[bench.Addresser](e)
	_, execer := bench.As[bench.Execer](e)
	switch {
	case c.kind == Log && c.line.String() == "":
		why = "ready: log: no line to wait for: give a regular expression with option text"
	case c.kind == Health && !execer:
		why = fmt.Sprintf("ready: health: engine %s cannot run another program in a container", e.Name())
	case !c.Connects():
	case !reachable:
		why = fmt.Sprintf("ready: %s: engine %s does not tell the addresses of its containers", c.kind, e.Name())
	case spec.Network == "none":
		why = fmt.Sprintf("ready: %s: a container on network none cannot be reached: use network host or bridge", c.kind)
	case spec.Reach == bench.ReachPeer:
		why = fmt.Sprintf(
			"ready: %s: the client is a process of this host, not a container: use network bridge or published",
			c.kind)
	}
	if why == "" {
		return nil
	}
	return fmt.Errorf("%w: %s", bench.ErrUnsupported, why)
}

// Known returns what neither the options nor the image say; the error wraps
// bench.ErrUnsupported.
func (c Condition) Known() error {
	switch {
	case c.Connects() && c.port == 0:
		return fmt.Errorf(
			"%w: ready: %s: the image names no port: give it with option port", bench.ErrUnsupported, c.kind)
	case c.kind == Health && len(c.command) == 0:
		return fmt.Errorf(
			"%w: ready: health: the image has no HEALTHCHECK: give program and arguments with option command",
			bench.ErrUnsupported)
	}
	return nil
}

// Network returns the cell's Spec with a network on which the Condition can be checked.
func (c Condition) Network(ctx context.Context, t bench.Task) (bench.Spec, error) {
	if !c.Connects() {
		return t.Spec, nil
	}
	return supervise.Reachable(ctx, t, nil)
}

// Publish adds the service's port to a Spec whose network has ports of its own.
func (c Condition) Publish(spec bench.Spec) bench.Spec {
	if c.Connects() && supervise.OwnNetwork(spec.Network) && len(spec.Ports) == 0 {
		spec.Ports = []bench.Port{{Container: c.port, Protocol: "tcp"}}
	}
	return spec
}

// Free returns an error if the service of spec is to listen on a port of this host that
// is taken.
func (c Condition) Free(spec bench.Spec) error {
	if !c.Connects() || supervise.OwnNetwork(spec.Network) {
		return nil
	}
	l, err := net.Listen("tcp", fmt.Sprintf(":%d", c.port))
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf(
			"port %d of this host is in use by another program: end that program, or use another port or network "+
				"bridge",
			c.port)
	}
	if err != nil {
		return nil // the service may still succeed
	}
	return l.Close()
}

func parsePort(text string) (uint16, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%.40q is not a port, a whole number between 1 and 65535", text)
	}
	return uint16(n), nil
}
