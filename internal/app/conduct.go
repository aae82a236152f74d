package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/run"
	"github.com/tare-bench/tare/internal/store/record"
)

// giveUpTime is how long tare waits for the hosts once the user has aborted.
const giveUpTime = 2 * abortTime

// A conductor lets the hosts of a Together begin their blocks at the same times. One goroutine uses it.
type conductor struct {
	app    *App
	t      *Together
	live   []*jointHost
	atGate map[*jointHost]arrival
	gone   []error    // of hosts that ended before their runs were finished
	lead   *jointHost // the host whose trials are shown; nil before the first
	ending bool       // every run is to end
}

// A hostEvent is what a host does: exactly one of its fields but host is set.
type hostEvent struct {
	host  *jointHost
	at    *arrival
	piece *record.Event
	lost  error
}

// conduct runs the blocks until every run has ended, fetches all records, and removes them from the
// hosts. A host that is lost keeps its records.
func (a *App) conduct(ctx context.Context, s bench.Store, t *Together, o Options) error {
	c := &conductor{
		app: a, t: t, live: slices.Clone(t.hosts), atGate: map[*jointHost]arrival{},
	}
	working, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	events := make(chan hostEvent)
	for _, h := range t.hosts {
		go h.attend(working, s, &t.Planned.Plan, events)
	}
	interrupt, abort, ended := o.Interrupt, ctx.Done(), false
	for len(c.live) > 0 {
		select {
		case e := <-events:
			c.take(e)
		case <-interrupt:
			interrupt, ended = nil, true
			c.end(working, false)
		case <-abort:
			abort, ended = nil, true
			c.end(working, true)
			defer time.AfterFunc(giveUpTime, giveUp).Stop()
		}
		if c.isAlone() {
			c.end(working, false)
		}
		c.release()
	}
	if c.lead != nil {
		a.config.Observer.OnEvent(run.Ended{})
		a.config.Observer.RunOver()
	}
	err := errors.Join(c.gone...)
	if ended {
		interrupted := fmt.Errorf("the runs on %s: %w", strings.Join(t.Hosts(), ", "), run.ErrInterrupted)
		err = errors.Join(&Problem{Kind: Interrupted, Err: interrupted, Run: t.hosts[0].run}, err)
	}
	return err
}

// attend follows one host until its run has ended, and everything of it is fetched and removed there. What
// cannot be stored here ends it at once. Its last event is a lost host, or a run that has ended.
func (h *jointHost) attend(ctx context.Context, s bench.Store, plan *bench.Plan, events chan<- hostEvent) {
	if h.refused != nil {
		events <- hostEvent{host: h, lost: h.refused}
		return
	}
	ctx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	var at arrival
	var fetching sync.WaitGroup
	var fetched error
	follows := false
	err := func() error {
		for {
			at = arrival{}
			if err := h.session.Call(ctx, opReady, struct{}{}, &at); err != nil {
				return err
			}
			if !follows {
				follows = true
				fetching.Go(func() {
					fetched = h.follow(ctx, s, plan, func(e record.Event) { events <- hostEvent{host: h, piece: &e} })
					if errors.Is(fetched, errNotKept) {
						giveUp()
					}
				})
			}
			if at.Ended {
				return nil
			}
			here := at
			events <- hostEvent{host: h, at: &here}
			if at.Doing != nil {
				continue
			}
			d := <-h.decisions
			if d == nil {
				continue
			}
			if err := h.session.Call(ctx, opGo, d, nil); err != nil {
				return err
			}
		}
	}()
	fetching.Wait()
	if err == nil || errors.Is(fetched, errNotKept) {
		err = fetched
	}
	if err == nil {
		err = h.session.Call(ctx, opForget, struct{}{}, nil)
	}
	if err != nil {
		events <- hostEvent{host: h, lost: err}
		return
	}
	events <- hostEvent{host: h, at: &at}
}

// take notes an event.
func (c *conductor) take(e hostEvent) {
	switch {
	case e.piece != nil:
		e.host.measured = e.host.measured || e.piece.Sample != nil
		c.show(e.host, e.piece)
	case e.at != nil && e.at.Doing != nil:
		c.showPart(e.host, *e.at.Doing)
	case e.lost != nil:
		c.remove(e.host)
		c.gone = append(c.gone, e.host.isLost(e.lost))
	case e.at.Ended:
		c.remove(e.host)
		c.noteEnd(e.host, *e.at)
	case c.ending:
		e.host.decisions <- nil
	default:
		c.atGate[e.host] = *e.at
	}
}

// isLost is the error of a host whose run is not finished and does not go on.
func (h *jointHost) isLost(why error) error {
	what := "gone"
	if errors.Is(why, errNotKept) {
		what = "given up"
	}
	return &Problem{Kind: HostLost, Err: fmt.Errorf("host %s is %s: %w", h.name, what, why), Run: h.run}
}

func (c *conductor) remove(h *jointHost) {
	delete(c.atGate, h)
	c.live = slices.DeleteFunc(c.live, func(o *jointHost) bool { return o == h })
}

// noteEnd notes why a run has ended that is not finished.
func (c *conductor) noteEnd(h *jointHost, at arrival) {
	if at.Error == "" || at.Interrupted {
		return
	}
	text := fmt.Sprintf("host %s: %s", h.name, at.Error)
	err := refusedThere(text, at.Unsupported)
	if at.Full {
		err = &full{text}
	}
	switch {
	case at.LeftBehind:
		err = &Problem{Kind: LeftBehindThere, Err: err, Run: h.run, Names: []string{h.name}}
	case h.measured:
		err = &Problem{Kind: HostStopped, Err: err, Run: h.run, Names: []string{h.name}}
	}
	c.gone = append(c.gone, err)
}

// isAlone reports whether one host is left of several, because the others are gone: then there is
// nothing to compare it with, and it waits for them to come back.
func (c *conductor) isAlone() bool {
	return !c.ending && len(c.t.hosts) > 1 && len(c.live) == 1 && len(c.gone) == len(c.t.hosts)-1
}

// end interrupts every run that is under way.
func (c *conductor) end(ctx context.Context, abort bool) {
	c.ending = true
	for _, h := range c.live {
		go func() { _ = h.session.Call(ctx, opInterrupt, interruptRequest{abort}, nil) }() // a host that is lost ends anyway
	}
	for h := range c.atGate {
		delete(c.atGate, h)
		h.decisions <- nil
	}
}

// release lets the block begin that comes first, on all hosts that wait before it, once every host
// waits.
func (c *conductor) release() {
	if len(c.live) == 0 || len(c.atGate) < len(c.live) {
		return
	}
	block := c.atGate[c.live[0]].Block
	for _, at := range c.atGate {
		block = min(block, at.Block)
	}
	reason := c.reason(block)
	for _, h := range c.live {
		at := c.atGate[h]
		if at.Block != block {
			continue
		}
		d := decision{Block: block, Reason: reason}
		if at.Reason == bench.StopAllFailed {
			d.Reason = at.Reason
		}
		delete(c.atGate, h)
		h.decisions <- &d
	}
}

// reason is why the hosts that wait before a block end their runs: because the time is over for one of
// them, or because each has a reason. Empty if the block begins.
func (c *conductor) reason(block int) (common bench.StopReason) {
	all := true
	for _, at := range c.atGate {
		switch {
		case at.Block != block || at.Reason == bench.StopAllFailed:
		case at.Reason == bench.StopBudget:
			return bench.StopBudget
		case at.Reason == "":
			all = false
		default:
			common = at.Reason
		}
	}
	if !all {
		return ""
	}
	return common
}

// show tells the observer of the first host whose run begins.
func (c *conductor) show(h *jointHost, e *record.Event) {
	o := c.app.config.Observer
	switch {
	case e.Header != nil && c.lead == nil:
		c.lead = h
		session := Session{Header: *e.Header, Planned: c.t.Planned, Look: 1}
		if h.stored != nil {
			session.Done = h.stored.Samples
		}
		o.RunBegins(session)
		trials := 0
		for _, block := range e.Header.Schedule {
			trials += len(block)
		}
		o.OnEvent(run.Began{Trials: trials, Done: len(session.Done)})
	case e.Sample != nil && h == c.lead && (h.stored == nil || e.Sample.Trial.Seq >= len(h.stored.Samples)):
		o.OnEvent(run.TrialBegan{Trial: e.Sample.Trial})
		o.OnEvent(run.TrialEnded{Sample: *e.Sample})
	}
}

// showPart tells the observer which part the host is at whose trials are shown.
func (c *conductor) showPart(h *jointHost, d doing) {
	if h != c.lead || d.Trial.Cell < 0 || d.Trial.Cell >= len(c.t.Planned.Plan.Cells) {
		return
	}
	c.app.config.Observer.OnEvent(run.TrialBegan{Trial: d.Trial})
	c.app.config.Observer.OnEvent(run.PartBegan{Cell: d.Trial.Cell, Part: d.Part})
}

// sameJSON compares two values by their JSON.
func sameJSON(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}
