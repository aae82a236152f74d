// Package survey is the workload that asks several questions in one trial: it takes a
// cell through other workloads, its parts, one after the other. So one block, and one
// table, shows the cost of a container in every respect. A part that fails does so alone:
// it lacks values, for a reason that the report shows, and the others have theirs.
//
// # Who shares a container
//
// Consecutive parts share a container if they can, which leaves time for more blocks. A
// "stop" is one container with its parts, or one part that makes containers of its own
// (lifecycle, pull). Each trial goes through the stops in order:
//
//	usually           [lifecycle] [cpu   memory   net]   supervise.NewBatch: one container
//	after cpu failed  [lifecycle] [cpu] [memory] [net]   its container ended, so all three
//	                                                     failed: each is tried alone
//	cpu given up      [lifecycle]       [memory   net]   it failed alone too
//
// A part is given up if the engine does not support it, if its service was never ready,
// or if it failed in two trials in a row in which others succeeded. A trial in which all
// parts failed says nothing about a part: the engine may have been down.
//
// The values of a part depend on what else its container does. So a part is "apart", and
// its values are dropped, in a trial in which it does not share its container with the
// usual parts; the sample says so (bench.Regrouping). In the example, all three parts are apart
// after cpu failed, and memory and net stay so after cpu is given up, unless cpu never
// worked. A part does not miss one that came after it and was given up: the two never
// met, because the container did its parts in order.
package survey

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
)

// A Part is a workload and the name that its options begin with: option "time"
// of part "cpu" is the survey's "cpu.time".
type Part struct {
	Name     string
	Workload bench.Workload
	// As is for a workload that is several parts: it replaces the part before the first
	// point in the names of its metrics. Title is appended to their titles. Empty = names
	// and titles stay as they are.
	As, Title string
	// Prefix begins the names of all its metrics, with a point: for a workload whose names say too
	// little beside others. Empty = names stay as they are.
	Prefix string
	// NoSpec is for a workload whose containers are not of the cell's kind: it gets an empty Spec.
	NoSpec bool

	begins string // what the names of its metrics begin with: asked for hundreds of times in a trial
}

// known returns the parts with what their workloads tell.
func known(parts []Part) []Part {
	for i, p := range parts {
		if parts[i].begins = p.As; p.As == "" {
			parts[i].begins, _, _ = strings.Cut(p.Workload.Metrics()[0].Name, ".")
		}
	}
	return parts
}

// New returns the survey of these parts, in this order. Their metrics must have different
// names, except counters, which are summed; the counters of the processes inside get the
// name of their part.
func New(parts ...Part) bench.Workload {
	return survey{name: "survey", doc: "All questions in short form, one after the other in each trial", parts: known(parts)}
}

// OfImages returns the survey of what an image costs a service: pull, start, and HTTP with
// few connections, with many, and at a rate. One option sets port, path and the like of
// the service for all parts.
func OfImages(pull, start, http bench.Workload) bench.Workload {
	return survey{
		name: "image", doc: "What an image costs a service, one after the other in each trial",
		shared: []string{"port", "path", "root", "tls", "http2"},
		parts: known([]Part{
			{Name: "pull", Workload: pull},
			{Name: "start", Workload: start},
			{Name: "few", Workload: http, As: "few", Title: "few at once"},
			{Name: "many", Workload: http, As: "many", Title: "many at once"},
			{Name: "rate", Workload: http, As: "rate", Title: "at a rate"},
		}),
	}
}

// OfHost returns the survey of what a whole host does for containers. Its parts take seconds, so whoever
// watches is told when each begins.
func OfHost(parts ...Part) bench.Workload {
	return survey{
		name: "host", doc: "A whole host with one engine, one part after the other in each trial",
		chosen: []string{"tool"}, whole: true, parts: known(parts),
	}
}

type survey struct {
	name, doc string
	shared    []string // options that can be set, by their own name, for all parts that have them
	chosen    []string // options that are a list, of which each part takes what its own option takes
	parts     []Part

	// whole: of a whole host. Whoever watches the run is told when a part begins, and the metrics stay in the
	// order of the parts.
	whole bool
}

func (s survey) Name() string { return s.name }

func (s survey) Doc() string {
	names := make([]string, len(s.parts))
	for i, p := range s.parts {
		names[i] = p.Name
	}
	return s.doc + ": " + strings.Join(names, ", ") + "."
}

// Metrics lists the metrics of every part, primary ones first; those of a whole host stay in the order of
// the parts, in which people read them.
func (s survey) Metrics() []bench.Metric {
	var all []bench.Metric
	for _, p := range s.parts {
		for _, m := range p.Workload.Metrics() {
			m = p.prefixed(m)
			if !slices.ContainsFunc(all, func(o bench.Metric) bool { return o.Name == m.Name }) {
				all = append(all, m)
			}
		}
	}
	if !s.whole {
		slices.SortStableFunc(all, func(a, b bench.Metric) int { return later(a) - later(b) })
	}
	return all
}

// StartTimes implements bench.Starter: it lists those of every part.
func (s survey) StartTimes() (all []string) {
	for _, p := range s.parts {
		if w, ok := p.Workload.(bench.Starter); ok {
			for _, name := range w.StartTimes() {
				all = append(all, p.metric(name))
			}
		}
	}
	return all
}

func later(m bench.Metric) int {
	if m.Role == bench.Primary {
		return 0
	}
	return 1
}

func (s survey) Params() []bench.Param {
	var all []bench.Param
	for _, name := range s.shared {
		all = append(all, s.sharedParam(name))
	}
	for _, name := range s.chosen {
		all = append(all, s.chosenParam(name))
	}
	for _, p := range s.parts {
		for _, param := range p.Workload.Params() {
			param.Name = p.Name + "." + param.Name
			all = append(all, param)
		}
	}
	return all
}

// sharedParam returns the option that sets the one of that name for every part that has it.
func (s survey) sharedParam(name string) bench.Param {
	var parts []string
	var valid []func(string) error
	for _, p := range s.parts {
		for _, param := range p.Workload.Params() {
			if param.Name == name {
				parts, valid = append(parts, p.Name+"."+name), append(valid, param.Valid)
			}
		}
	}
	return bench.Param{
		Name: name, Doc: "sets all of " + strings.Join(parts, ", ") + " at once; empty: each has its own value",
		Valid: func(value string) error {
			for _, check := range valid {
				if value == "" || check == nil {
					continue
				}
				if err := check(value); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// task returns the Task of a part.
func (s survey) task(p Part, t bench.Task) bench.Task {
	params := map[string]string{}
	for name, value := range t.Params {
		own, ok := strings.CutPrefix(name, p.Name+".")
		switch {
		case !ok:
		case slices.Contains(s.chosen, own):
			params[own] = p.chosen(own, value, t.Params[own])
		default:
			params[own] = cmp.Or(t.Params[own], value)
		}
	}
	t.Params, t.Fixture, t.Condition = params, nil, p.Name+" "+t.Condition
	if p.NoSpec {
		t.Spec = bench.Spec{}
	}
	if earlier := t.EarlierValue; earlier != nil {
		t.EarlierValue = func(metric string) (float64, bool) { return earlier(p.metric(metric)) }
	}
	return t
}

// TakesTurns implements bench.TurnTaker: the parts that can take turns do.
func (s survey) TakesTurns(params map[string]string) bool {
	takes := false
	for _, p := range s.parts {
		own := s.task(p, bench.Task{Params: params}).Params
		if w, ok := p.Workload.(bench.TurnRefuser); ok && w.RefusesTurns(own) {
			return false
		}
		w, ok := p.Workload.(bench.TurnTaker)
		takes = takes || ok && w.TakesTurns(own)
	}
	return takes
}

// RestingMemory implements bench.Hoarder.
func (s survey) RestingMemory(params map[string]string) (most int64) {
	for _, p := range s.parts {
		if h, ok := p.Workload.(bench.Hoarder); ok {
			most = max(most, h.RestingMemory(s.task(p, bench.Task{Params: params}).Params))
		}
	}
	return most
}

// Check implements bench.Workload. A cell runs without the parts that it does not
// support. If it supports none, the cell is unsupported.
func (s survey) Check(ctx context.Context, t bench.Task) error {
	var whys []error
	for _, p := range s.parts {
		err := p.Workload.Check(ctx, s.task(p, t))
		if err == nil {
			continue
		}
		err = fmt.Errorf("%s: %w", p.Name, s.errorHere(p, err))
		if !errors.Is(err, bench.ErrUnsupported) {
			return err
		}
		whys = append(whys, err)
	}
	if len(whys) < len(s.parts) {
		return nil
	}
	return errors.Join(whys...)
}
