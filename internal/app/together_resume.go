package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/store/record"
)

// ResumeTogether goes on with runs that were measured together, of which stored is one. First it
// fetches what the hosts have measured that is not stored here. Then those go on whose runs are not
// finished, from the first trial that has no sample, if there are two of them or it was one from the
// start: a run that goes on alone would have nothing to be compared with. It returns as
// MeasureTogether does, and the IDs of all runs. Of the options, only Interrupt is used.
func (a *App) ResumeTogether(
	ctx context.Context, s bench.Store, stored *bench.Run, o Options,
) (ids []string, err error) {
	j := stored.Header.Joint
	t := newTogether(j.ID, j.Hosts)
	defer func() {
		if err := t.Close(); err != nil { // which says nothing about the runs
			a.config.Observer.NotEnded(err)
		}
	}()
	if err := errors.Join(CheckHosts(j.Hosts), t.load(ctx, s)); err != nil {
		return nil, err
	}
	dir, err := a.newRunDir(t.ID, nil) // says that the runs are under way
	if err != nil {
		return nil, err
	}
	err = a.takeUpTogether(ctx, s, t, &stored.Header.Plan, o)
	return t.Runs(), errors.Join(err, dir.remove())
}

// load reads what is stored of the runs.
func (t *Together) load(ctx context.Context, s bench.Store) error {
	for _, h := range t.hosts {
		run, err := s.Open(ctx, h.run)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return err
		case run.Header.Imported || run.Header.Joint == nil || run.Header.Joint.ID != t.ID || run.Header.Joint.Host != h.name:
			return isImported(h.run)
		}
		h.stored = run
	}
	return nil
}

func (a *App) takeUpTogether(ctx context.Context, s bench.Store, t *Together, plan *bench.Plan, o Options) error {
	err := t.each(func(h *jointHost) error {
		if h.isFinished() {
			return nil
		}
		if err := a.fetch(ctx, s, h, plan); err != nil {
			return h.isLost(err)
		}
		return nil
	})
	rest := &Together{ID: t.ID, Planned: &Planned{Plan: *plan, Workload: workloadNamed(plan.Workload)}}
	for _, h := range t.hosts {
		if h.session != nil && h.stored != nil && !h.isFinished() {
			rest.hosts = append(rest.hosts, h)
		}
	}
	switch {
	case len(rest.hosts) == 0:
		return err
	case len(rest.hosts) == 1 && len(t.hosts) > 1:
		h := rest.hosts[0]
		alone := fmt.Errorf("run %s has all that host %s has measured, %d trials, and does not go on: no other host goes "+
			"on with it", h.run, h.name, len(h.stored.Samples))
		return errors.Join(err, &Problem{Kind: NoPartner, Err: alone, Run: h.run})
	}
	for _, e := range rest.hosts[0].stored.Header.Engines {
		rest.Planned.Probed = append(rest.Planned.Probed, Probed{Instance: Instance{Name: e.Name, Driver: e.Driver}, Info: e})
	}
	_ = rest.each(func(h *jointHost) error {
		h.refused = h.goOn(ctx) // which is told in time
		return nil
	})
	return errors.Join(err, a.conduct(ctx, s, rest, o))
}

func (h *jointHost) isFinished() bool { return h.stored != nil && h.stored.End != nil }

// fetch stores what a host has measured that is not stored here, and removes it there.
func (a *App) fetch(ctx context.Context, s bench.Store, h *jointHost, plan *bench.Plan) error {
	if err := a.reach(ctx, h); err != nil {
		return err
	}
	if err := h.follow(ctx, s, plan, func(record.Event) {}); err != nil {
		return err
	}
	if err := h.session.Call(ctx, opForget, struct{}{}, nil); err != nil {
		return err
	}
	run, err := s.Open(ctx, h.run)
	if err == nil {
		h.stored = run
	}
	return ignoreMissing(err)
}

// goOn sends a host what is stored of its run, and lets it go on with that.
func (h *jointHost) goOn(ctx context.Context) error {
	r, w := io.Pipe()
	go func() { _ = w.CloseWithError(record.WriteEvents(w, record.Events(h.stored))) }() // the reader gets the error
	answer, err := h.session.Send(ctx, opResume+"?shift="+url.QueryEscape(h.shift.String()), r)
	if err != nil {
		return errors.Join(err, r.Close())
	}
	return answer.Close()
}
