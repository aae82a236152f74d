package http

import (
	"context"
	"fmt"
	"math"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/load/http"
	"github.com/tare-bench/tare/internal/supervise"
)

// A tool is a program of the host that replaces tare's own client. It has a closed loop.
type tool struct {
	supervise.Program
	unknown []string // options of the workload that it does not have
	argv    func(o toolRequest) []string
	parse   func(output []byte) (*load.Report, error)
}

// A toolRequest is the task of a tool.
type toolRequest struct {
	params  map[string]string
	server  netip.AddrPort
	path    string
	threads int
}

func (q toolRequest) url() string {
	if q.params["tls"] == "yes" {
		return "https://" + q.server.String() + q.path
	}
	return "http://" + q.server.String() + q.path
}

// seconds is an option that is a duration, in whole seconds, at least one.
func (q toolRequest) seconds(name string) string {
	d, _ := time.ParseDuration(q.params[name]) // was validated
	return strconv.FormatInt(int64(max(1, math.Ceil(d.Seconds()))), 10)
}

func (q toolRequest) keepAlive() bool { return q.params["keepalive"] == "yes" }

func tools() []*tool { return []*tool{ab(), wrk()} }

func toolNames() []string {
	var names []string
	for _, t := range tools() {
		names = append(names, t.Name)
	}
	return names
}

// toolOf returns the tool of a cell; nil if it has none.
func toolOf(params map[string]string) *tool {
	all := tools()
	i := slices.IndexFunc(all, func(o *tool) bool { return o.Name == params["tool"] })
	if i < 0 {
		return nil
	}
	return all[i]
}

// askWith runs a tool until it has ended.
func (v *loadRun) askWith(ctx context.Context, t *tool) (*load.Report, error) {
	path, _ := v.path()
	q := toolRequest{params: v.task.Params, server: v.at, path: path, threads: max(1, len(v.cpus.client))}
	spec := v.clientSpec
	spec.Image, spec.Argv = "host:"+t.Name, append([]string{t.Name}, t.argv(q)...)
	client, err := supervise.Start(ctx, v.client, spec, v.clock, "client")
	if err != nil {
		return nil, err
	}
	defer v.clock.Cleanup(client.Remove)
	output, err := client.Output(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.Name, err)
	}
	return t.read(output)
}

// read turns the output of a tool into a report.
func (t *tool) read(output []byte) (*load.Report, error) {
	r, err := t.parse(output)
	if err != nil {
		return nil, err
	}
	for name, v := range r.Values {
		if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
			return nil, t.UnknownOutput("possible "+name, output)
		}
	}
	if r.Values[Requests] <= r.Values[Failed] {
		return nil, fmt.Errorf("%s: none of %v requests got a good answer", t.Name, r.Values[Requests])
	}
	if r.Values[Failed] > 0 {
		r.Notes = append(r.Notes, http.NoteFailed)
	}
	r.Notes = append(r.Notes, http.NoteClosedLoop)
	r.Facts["sent"] = strconv.FormatFloat(r.Values[Requests], 'f', -1, 64)
	r.Facts["span"] = strconv.FormatFloat(r.Values[Elapsed], 'f', -1, 64)
	return r, nil
}

// A reader extracts numbers from a text for people, and keeps the first one that is
// missing.
type reader struct {
	text    []byte
	missing string
}

// number returns the number that form captures; if there is none, what is missing.
func (r *reader) number(what string, form *regexp.Regexp) float64 {
	v, ok := r.maybe(form)
	if !ok && r.missing == "" {
		r.missing = what
	}
	return v
}

// maybe returns the number that form captures, if there is one.
func (r *reader) maybe(form *regexp.Regexp) (float64, bool) {
	found := form.FindSubmatch(r.text)
	if found == nil {
		return 0, false
	}
	v, err := strconv.ParseFloat(string(found[1]), 64)
	return v, err == nil
}
