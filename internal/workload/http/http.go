// Package http is the workload of a web server: it serves files from a container
// and loads it.
//
// The server is what an image has, the host's nginx, or tare's own agent; the
// content is made here and mounted read-only at the path that it has outside, so
// that a plain process and every container are told the same. The client is
// tare's agent beside the container, or one of the tools that others use.
package http

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"strconv"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/image"
	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/load/http"
	"github.com/tare-bench/tare/internal/text/unit"
)

// Name is the workload's.
const Name = "http"

// New returns the workload. Images finds images, and keeps what it makes of them
// below a directory.
func New(images func(dir string) *image.Library) bench.Workload {
	return workload{images}
}

type workload struct {
	images func(dir string) *image.Library
}

func (workload) Name() string { return Name }

func (workload) Doc() string {
	return "A web server in the container, and a client beside it: requests per second, the times of their answers, failures, and what the server uses."
}

func (workload) Params() []bench.Param {
	own := func(name, def, doc string) bench.Param {
		return bench.Param{Name: name, Default: def, Doc: doc, Valid: func(v string) error { return load.Valid(name, v, http.Valid) }}
	}
	rate := own("rate", "0", "requests per second, each sent and timed from when it is due (open loop), or a part of what the slowest cell of those compared can do, such as 70%; 0: each connection sends the next when it has the answer (closed loop)")
	absolute := rate.Valid
	rate.Valid = func(v string) error {
		if _, ok := shareOf(v); ok {
			return nil
		}
		return absolute(v)
	}
	return []bench.Param{
		{Name: "server", Default: "", Valid: bench.OneOf("", nginx, ofImage), Doc: "nginx: nginx with one small configuration, the same in every cell, of the image or else of this host; image: what the image runs by itself; empty: the same, but nginx for host:nginx, and without an image a server of tare's own"},
		{Name: "root", Default: "/usr/share/nginx/html", Valid: validRoot, Doc: "where an image that runs its own server has its documents: the content is mounted there"},
		{Name: "port", Default: "0", Valid: validPort, Doc: "where the server listens; 0: where an image runs its own server the one that it names, or 80; else one that is free"},
		{Name: "size", Default: "1MB", Valid: validSize, Doc: "of the file that is asked for: random bytes"},
		{Name: "path", Default: "", Valid: validPath, Doc: "what is asked for; empty: the file of that size"},
		own("connections", "16", "how many connections are open at once"),
		own("requests", "0", "how many requests a trial sends; 0: for as long as time"),
		own("repeat", "1", "how often a trial sends these requests at most, each time once all before were answered, and not again after time: rates are the median of the times"),
		own("time", "2s", "how long requests are sent, or how long each rate of a ramp is tried; with repeat after how long the requests are not sent again"),
		rate,
		own("ramp", "no", "yes: look for the highest rate that holds, from rate (or 1000) up: times within the objective, and at most 1 % of the requests without a good answer in time"),
		own("objective", "10ms", "of a ramp: what the percentile of times must not exceed; at most half of time"),
		own("percentile", "99", "of a ramp: 50, 90, 99 or 99.9"),
		own("keepalive", "yes", "yes: connections stay open; no: each request has one of its own"),
		own("warmup", "200ms", "for how long requests are sent before any counts"),
		own("timeout", "5s", "after how long a request without a whole answer has failed"),
		{Name: "tls", Default: "no", Valid: bench.OneOf("no", "yes"), Doc: "yes: over TLS, with a certificate made for the cell, which nobody checks; each connection's handshake is part of it"},
		{Name: "http2", Default: "no", Valid: bench.OneOf("no", "yes"), Doc: "yes: HTTP/2, one request at a time on each connection; without tls by prior knowledge"},
		{Name: "pin", Default: "yes", Valid: bench.OneOf("yes", "no"), Doc: "yes: client and server on CPUs of their own, where there are two; what an image runs by itself is kept there by its container"},
		{Name: "tool", Default: "", Valid: bench.OneOf(append([]string{""}, toolNames()...)...), Doc: "ab, wrk or oha: the host's program in place of tare's own client"},
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
		return fmt.Errorf("%.40q is not a port from 1 to 65535, or 0", s)
	}
	return nil
}

// maxSize is the largest file that is made.
const maxSize = 1 << 30

func validSize(s string) error {
	if n, err := unit.ParseBytes(s); err != nil || n < 0 || n > maxSize {
		return fmt.Errorf("%.40q is not a size up to 1GiB, such as 1MB", s)
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
		return fmt.Errorf("%w: engine %s does not tell where its containers are reached", bench.ErrUnsupported, t.Engine.Name())
	}
	if t.Spec.Network == "none" {
		return fmt.Errorf("%w: network none: nobody can reach the container: use network host or bridge", bench.ErrUnsupported)
	}
	_, plain := bench.As[bench.DataKeeper](t.Engine)
	switch kind := kindOf(t); {
	case kind != ownServer && len(t.Spec.Argv) > 0:
		return fmt.Errorf("%w: %s has arguments of its own: leave argv out", bench.ErrUnsupported, kind)
	case kind == builtIn && encrypted(t):
		return fmt.Errorf("%w: tare's own server speaks plain HTTP/1.1: for tls and http2 use server=nginx, or an image", bench.ErrUnsupported)
	case encrypted(t) && t.Spec.Reach == bench.ReachPeer:
		return fmt.Errorf("%w: the client for tls and http2 is a program of this host, and reach peer has one in a container: use another reach", bench.ErrUnsupported)
	case kind == ownServer && plain:
		return fmt.Errorf("%w: nothing can be mounted for a plain process: use server=nginx", bench.ErrUnsupported)
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
	tool, share := toolOf(params), isShare(params)
	switch {
	case tool != nil && share:
		return errors.New("what the cells can do is found with tare's own client: leave tool out, or give a rate in requests per second")
	case params["ramp"] == "yes" && share:
		return errors.New("a ramp begins at a rate in requests per second")
	}
	if err := options(params); err != nil || tool == nil {
		return err
	}
	return tool.Unknown(w.Params(), params, tool.unknown...)
}

// encrypted tells whether the client has to be the one that speaks more than plain
// HTTP/1.1.
func encrypted(t bench.Task) bool { return t.Params["tls"] == "yes" || t.Params["http2"] == "yes" }

func isShare(params map[string]string) bool {
	_, ok := shareOf(params["rate"])
	return ok
}

// options says which options contradict one another.
func options(params map[string]string) error {
	args, err := load.ParseArgs(load.Words(clientOptions(params)))
	if err != nil {
		return err
	}
	p, err := http.Read(args)
	return errors.Join(err, p.Check())
}

// clientOptions are those of the load.
func clientOptions(params map[string]string) map[string]string {
	all := maps.Clone(params)
	for _, name := range append(serverOptions(), "tool", "path") {
		delete(all, name)
	}
	if _, ok := shareOf(all["rate"]); ok {
		all["rate"] = "1" // until all cells have shown what they can do
	}
	return all
}
