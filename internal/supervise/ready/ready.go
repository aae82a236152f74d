// Package ready starts a service in a container and finds out when it is ready: a
// port accepts, HTTP answers, a line is in its log, or its health check succeeds.
//
// What is looked at again and again is looked at every half millisecond at first,
// later after one percent of the time waited: when it became ready is known that
// well, and the looking takes little of the CPU that is measured.
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

// A Condition is what a service has to fulfil.
type Condition struct {
	how     string
	port    uint16
	path    string
	line    *regexp.Regexp
	command []string
	timeout time.Duration
}

// Params are the options that Parse reads, for a workload. First is the default
// way; it may be empty, for a workload that can do without.
func Params(first string) []bench.Param {
	ways := []string{Port, HTTP, Log, Health}
	if first == "" {
		ways = append(ways, "")
	}
	return []bench.Param{
		{Name: "ready", Default: first, Valid: bench.OneOf(ways...), Doc: "what makes the service ready: port (it accepts a connection), http (it answers a GET of path with a status of 200 to 399), log (it prints a line that matches text), health (command ends with 0 in the container)"},
		{Name: "port", Default: "", Valid: validPort, Doc: "where the service listens inside, over TCP; tare's own listens on 4811, or on one that is free on network host"},
		{Name: "path", Default: "/", Valid: validPath, Doc: "of ready: http: the path, and query, that is asked for"},
		{Name: "text", Default: "", Valid: validText, Doc: "of ready: log: a regular expression (RE2) that a line of standard output or error matches"},
		{Name: "command", Default: "", Doc: "of ready: health: program and arguments, as a list; without it the image's HEALTHCHECK"},
		{Name: "timeout", Default: "20s", Valid: validTimeout, Doc: "after how long a service that is not ready has failed; timeouts of operation and trial hold as well"},
	}
}

// Parse reads the options. A Condition of no way holds at once.
func Parse(params map[string]string) (Condition, error) {
	c := Condition{how: params["ready"], path: params["path"]}
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

// Connects reports whether the service is reached by its port.
func (c Condition) Connects() bool { return c.how == Port || c.how == HTTP }

// Holds reports whether the Condition is none.
func (c Condition) Holds() bool { return c.how == "" }

// Port is where the service listens inside; 0 if nobody has said.
func (c Condition) Port() uint16 { return c.port }

// Check reports what is missing for a Condition; the error wraps
// bench.ErrUnsupported.
func (c Condition) Check(e bench.Engine, spec bench.Spec) error {
	var why string
	_, reachable := bench.As[bench.Addresser](e)
	_, execer := bench.As[bench.Execer](e)
	switch {
	case c.how == Log && c.line.String() == "":
		why = "ready: log: which line? give a regular expression with the option text"
	case c.how == Health && !execer:
		why = fmt.Sprintf("ready: health: engine %s runs no further program in a container", e.Name())
	case !c.Connects():
	case !reachable:
		why = fmt.Sprintf("ready: %s: engine %s does not tell where its containers are reached", c.how, e.Name())
	case spec.Network == "none":
		why = fmt.Sprintf("ready: %s: nobody can reach a container on network none: use network host or bridge", c.how)
	case spec.Reach == bench.ReachPeer:
		why = fmt.Sprintf("ready: %s: the client is on this host, and not in a container: use network bridge or published", c.how)
	}
	if why == "" {
		return nil
	}
	return fmt.Errorf("%w: %s", bench.ErrUnsupported, why)
}

// Known reports what was left open that only the image could tell; the error wraps
// bench.ErrUnsupported.
func (c Condition) Known() error {
	switch {
	case c.Connects() && c.port == 0:
		return fmt.Errorf("%w: ready: %s: which port? the image does not name one: give it with the option port", bench.ErrUnsupported, c.how)
	case c.how == Health && len(c.command) == 0:
		return fmt.Errorf("%w: ready: health: the image has no HEALTHCHECK: give program and arguments with the option command", bench.ErrUnsupported)
	}
	return nil
}

// Network is the cell's specification with a network on which the Condition can be
// looked at.
func (c Condition) Network(ctx context.Context, t bench.Task) (bench.Spec, error) {
	if !c.Connects() {
		return t.Spec, nil
	}
	return supervise.Reachable(ctx, t, nil)
}

// Publish adds the service's port to a specification, where that has ports of its
// own.
func (c Condition) Publish(spec bench.Spec) bench.Spec {
	if c.Connects() && supervise.OwnNetwork(spec.Network) && len(spec.Ports) == 0 {
		spec.Ports = []bench.Port{{Container: c.port, Protocol: "tcp"}}
	}
	return spec
}

// Free reports a port of this host that is taken, where the service of spec is to
// listen on it.
func (c Condition) Free(spec bench.Spec) error {
	if !c.Connects() || supervise.OwnNetwork(spec.Network) {
		return nil
	}
	l, err := net.Listen("tcp", fmt.Sprintf(":%d", c.port))
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("port %d of this host is taken: another program listens there: end it, or use another port, or network bridge", c.port)
	}
	if err != nil {
		return nil // the service may be able to
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
