// Package http is the workload of a web server: it runs one in a container and puts
// load on it.
//
// The server is the image's own, the host's nginx, or tare's agent. The content is made
// here and mounted read-only under the same path as on the host, so that a plain process
// and every container get the same configuration. The client is tare's agent outside of
// the container, or one of the usual tools.
package http

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"strconv"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/image"
	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/load/http"
	"github.com/tare-bench/tare/internal/supervise/capacity"
	"github.com/tare-bench/tare/internal/text/unit"
)

// Name is the name of the workload.
const Name = "http"

// New returns the workload. images returns a library that finds images and keeps its
// files below dir.
func New(images func(dir string) *image.Library) bench.Workload {
	return workload{images}
}

type workload struct {
	images func(dir string) *image.Library
}

func (workload) Name() string { return Name }

func (workload) Doc() string {
	return "A web server in the container and a client outside: requests per second, response times, failures, and " +
		"the server's usage."
}

func (workload) Params() []bench.Param {
	own := func(name, def, doc string) bench.Param {
		return bench.Param{
			Name: name, Default: def, Doc: doc, Valid: func(v string) error { return load.Valid(name, v, http.Valid) },
		}
	}
	rate := own("rate", "0", "requests per second, each sent when it is due and timed from then (open loop), "+
		"or a share of the capacity of the slowest compared cell, such as 70%; "+
		"0: each connection sends the next request after the answer (closed loop)")
	rate.Valid = capacity.ValidRate(rate.Valid)
	return []bench.Param{
		{Name: "server", Default: "", Valid: bench.OneOf("", nginx, ofImage), Doc: "nginx: the image's nginx, or " +
			"else this host's, with one small configuration for all cells; image: the image's own server; " +
			"empty: the same, but nginx for host:nginx, and tare's own server without an image"},
		{Name: "root", Default: "/usr/share/nginx/html", Valid: validRoot, Doc: "document root of an image's own " +
			"server: the content is mounted there"},
		{Name: "port", Default: "0", Valid: validPort, Doc: "port of the server; 0: for an image's own server the " +
			"port that the image names, or 80; otherwise a free port"},
		{Name: "size", Default: "1MiB", Valid: validSize, Doc: "size of the requested file, which has random bytes"},
		{Name: "path", Default: "", Valid: validPath, Doc: "path to request; empty: the file of that size"},
		own("connections", "16", "number of open connections"),
		own("requests", "0", "number of requests of a trial; 0: as many as fit into time"),
		own("repeat", "1",
			"how often at most a trial sends these requests; each round begins when all answers of the last one "+
				"are there, and none begins after time; rates are the median of the rounds"),
		own("time", "2s",
			"how long requests are sent, or how long each rate of a ramp is tried; with repeat, no round begins "+
				"after it"),
		rate,
		own("ramp", "no",
			"yes: find the highest rate that holds, starting at rate (or 1000): response times meet the objective, "+
				"and at most 1 % of the requests have no good answer in time"),
		own("objective", "10ms", "with ramp: limit of the percentile of response times; at most half of time"),
		own("percentile", "99", "with ramp: 50, 90, 99 or 99.9"),
		own("keepalive", "yes", "yes: connections stay open; no: a new connection for each request"),
		own("warmup", "200ms", "how long requests are sent before any counts"),
		own("timeout", "5s", "time after which a request without a complete answer has failed"),
		{Name: "tls", Default: "no", Valid: bench.OneOf("no", "yes"), Doc: "yes: use TLS, with a certificate that " +
			"is made for the cell and not verified; times of connections include the handshake"},
		{Name: "http2", Default: "no", Valid: bench.OneOf("no", "yes"), Doc: "yes: use HTTP/2, with one request at " +
			"a time on each connection; without tls by prior knowledge"},
		{Name: "pin", Default: "yes", Valid: bench.OneOf("yes", "no"), Doc: "yes: client and server run on " +
			"separate CPUs if there are two; an image's own server is kept there by its container"},
		{Name: "tool", Default: "", Valid: bench.OneOf(append([]string{""}, toolNames()...)...), Doc: "ab or wrk: use " +
			"this program of the host instead of tare's own client"},
	}
}

func validRoot(s string) error {
	if !path.IsAbs(s) || path.Clean(s) != s || s == "/" {
		return fmt.Errorf("%.80q is not an absolute path below /", s)
	}
	return nil
}

func validPort(s string) error {
	if _, err := strconv.ParseUint(s, 10, 16); err != nil {
		return fmt.Errorf("%.40q is not a port: use 0 to 65535", s)
	}
	return nil
}

// maxSize is the largest size of the file, in bytes.
const maxSize = 1 << 30

func validSize(s string) error {
	if n, err := unit.ParseBytes(s); err != nil || n < 0 || n > maxSize {
		return fmt.Errorf("%.40q is not a size of at most 1GiB, such as 1MiB", s)
	}
	return nil
}

func validPath(s string) error {
	if s == "" {
		return nil
	}
	return http.CheckPath(s)
}

// Check implements bench.Workload.
func (w workload) Check(_ context.Context, t bench.Task) error {
	if _, ok := bench.As[bench.Addresser](t.Engine); !ok {
		return fmt.Errorf(
			"%w: engine %s does not tell the addresses of its containers", bench.ErrUnsupported, t.Engine.Name())
	}
	if t.Spec.Network == "none" {
		return fmt.Errorf(
			"%w: network none: the container cannot be reached: use network host or bridge", bench.ErrUnsupported)
	}
	_, plain := bench.As[bench.DataKeeper](t.Engine)
	switch kind := kindOf(t); {
	case kind != imageServer && len(t.Spec.Argv) > 0:
		return fmt.Errorf("%w: %s has arguments of its own: leave argv out", bench.ErrUnsupported, kind)
	case kind == builtIn && encrypted(t):
		return fmt.Errorf(
			"%w: tare's own server supports only plain HTTP/1.1: for tls and http2 use server=nginx, or an image",
			bench.ErrUnsupported)
	case encrypted(t) && t.Spec.Reach == bench.ReachPeer:
		return fmt.Errorf(
			"%w: the client for tls and http2 runs on this host, but reach peer needs one in a container: use "+
				"another reach",
			bench.ErrUnsupported)
	case kind == imageServer && plain:
		return fmt.Errorf("%w: a plain process has no mounts for the content: use server=nginx", bench.ErrUnsupported)
	}
	if err := w.CheckParams(t.Params); err != nil {
		return fmt.Errorf("%w: %w", bench.ErrUnsupported, err)
	}
	if tool := toolOf(t.Params); tool != nil {
		return tool.Find()
	}
	return nil
}

// CheckParams implements bench.ParamChecker.
func (w workload) CheckParams(params map[string]string) error {
	tool, share := toolOf(params), capacity.IsShare(params["rate"])
	switch {
	case tool == nil && params["tool"] != "": // of a stored run that is to be resumed
		return fmt.Errorf("tool %.40q: tare knows only %s", params["tool"], strings.Join(toolNames(), " and "))
	case tool != nil && share:
		return errors.New(
			"only tare's own client can measure the capacity of the cells: leave tool out, or give a rate in " +
				"requests per second")
	case params["ramp"] == "yes" && share:
		return errors.New("a ramp cannot start at a share: give a rate in requests per second")
	}
	if _, err := plan(params); err != nil || tool == nil {
		return err
	}
	return tool.UnknownOptions(w.Params(), params, tool.unknown...)
}

// TakesTurns implements bench.TurnTaker: a closed loop of tare's own client does.
func (workload) TakesTurns(params map[string]string) bool {
	if params["tool"] != "" || params["tls"] == "yes" || params["http2"] == "yes" {
		return false
	}
	p, err := plan(params)
	return err == nil && p.TakesTurns()
}

// encrypted reports whether the client needs TLS or HTTP/2.
func encrypted(t bench.Task) bool { return t.Params["tls"] == "yes" || t.Params["http2"] == "yes" }

// plan returns what tare's own client does with these options; the error says which contradict one another.
func plan(params map[string]string) (http.Plan, error) {
	args, err := load.ParseArgs(load.Words(clientOptions(params)))
	if err != nil {
		return http.Plan{}, err
	}
	p, err := http.Read(args)
	return p, errors.Join(err, p.Check())
}

// clientOptions returns the options of the load.
func clientOptions(params map[string]string) map[string]string {
	all := maps.Clone(params)
	for _, name := range append(serverOptions(), "tool", "path") {
		delete(all, name)
	}
	if capacity.IsShare(all["rate"]) {
		all["rate"] = "1" // until the capacities of all cells are known
	}
	return all
}
