// Package survey is the workload that asks several questions in one trial: it
// takes a cell through other workloads, its parts, one after the other. So one
// block, and one table, holds what a container costs in every respect. Parts that
// can share a container do, which leaves time for more blocks. A part that fails does
// so alone: it has no value, or not all, for a reason that is told, and the others have
// theirs.
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
	// As is for a workload that is several parts: what the names of its metrics begin
	// with, in place of what stands before their first point. Title is added to
	// their titles. Empty = they are as the workload has them.
	As, Title string
}

// New returns the survey of these parts, in this order. Their metrics have
// different names, but for counters, which are added up; supervise's counters of the
// processes inside get the name of their part.
func New(parts ...Part) bench.Workload {
	return survey{name: "survey", doc: "Everything in short form, one after the other in each trial", parts: parts}
}

// OfImages returns the survey of what an image costs a service: HTTP to few at once,
// to many, and at a rate. Where the service is found can be said of all parts at once.
func OfImages(pull, start, http bench.Workload) bench.Workload {
	return survey{
		name: "image", doc: "What an image costs a service, one after the other in each trial",
		shared: []string{"port", "path", "root", "tls", "http2"},
		parts: []Part{
			{Name: "pull", Workload: pull},
			{Name: "start", Workload: start},
			{Name: "few", Workload: http, As: "few", Title: "few at once"},
			{Name: "many", Workload: http, As: "many", Title: "many at once"},
			{Name: "rate", Workload: http, As: "rate", Title: "at a rate"},
		},
	}
}

type survey struct {
	name, doc string
	shared    []string // options that also go for all parts that have them, by their own name
	parts     []Part
}

func (s survey) Name() string { return s.name }

func (s survey) Doc() string {
	names := make([]string, len(s.parts))
	for i, p := range s.parts {
		names[i] = p.Name
	}
	return s.doc + ": " + strings.Join(names, ", ") + "."
}

// Metrics lists those of every part, primary ones first.
func (s survey) Metrics() []bench.Metric {
	var all []bench.Metric
	for _, p := range s.parts {
		for _, m := range p.Workload.Metrics() {
			m = p.named(m)
			if !slices.ContainsFunc(all, func(o bench.Metric) bool { return o.Name == m.Name }) {
				all = append(all, m)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b bench.Metric) int { return later(a) - later(b) })
	return all
}

func later(m bench.Metric) int {
	if m.Role == bench.Primary {
		return 0
	}
	return 1
}

// Notes implements bench.Noter: those of every part.
func (s survey) Notes() []bench.Note {
	var all []bench.Workload
	for _, p := range s.parts {
		all = append(all, p.Workload)
	}
	return bench.NotesOf(all...)
}

func (s survey) Params() []bench.Param {
	var all []bench.Param
	for _, name := range s.shared {
		all = append(all, s.forAll(name))
	}
	for _, p := range s.parts {
		for _, param := range p.Workload.Params() {
			param.Name = p.Name + "." + param.Name
			all = append(all, param)
		}
	}
	return all
}

// forAll is the option of that name for every part that has it.
func (s survey) forAll(name string) bench.Param {
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
		Name: name, Doc: "in place of each of " + strings.Join(parts, ", ") + "; empty: as these say",
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

// task is what a part works on.
func (p Part) task(t bench.Task) bench.Task {
	params := map[string]string{}
	for name, value := range t.Params {
		if own, ok := strings.CutPrefix(name, p.Name+"."); ok {
			params[own] = cmp.Or(t.Params[own], value)
		}
	}
	t.Params, t.Fixture, t.Condition = params, nil, p.Name+" "+t.Condition
	if earlier := t.Earlier; earlier != nil {
		t.Earlier = func(metric string) (float64, bool) { return earlier(p.metric(metric)) }
	}
	return t
}

// Check implements bench.Workload. A cell that some part cannot run in is run
// without it; one that none can is unsupported.
func (s survey) Check(ctx context.Context, t bench.Task) error {
	var whys []error
	for _, p := range s.parts {
		err := p.Workload.Check(ctx, p.task(t))
		if err == nil {
			continue
		}
		err = fmt.Errorf("%s: %w", p.Name, err)
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
