package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tare-bench/tare/internal/fleet"
	"github.com/tare-bench/tare/internal/fleet/kube"
	"github.com/tare-bench/tare/internal/fleet/podlog"
)

// sweepTime is how long it takes to read the logs of all pods that run, so that they do not burden the API server.
func sweepTime(nodes int) time.Duration {
	return max(2*time.Minute, time.Duration(nodes)*250*time.Millisecond)
}

// A reading is the log of one pod, as far as it was read.
type reading struct {
	log    *podlog.Reader
	busy   bool      // it is being read
	last   time.Time // it was asked for then, by the wall clock: the client's machine may sleep
	read   time.Time // as last, of the last time that it could be read
	again  time.Time // it is not asked for before
	failed time.Time // since when it could not be read; zero = it could
	tries  int       // how often it was read since the pod has ended
	sunk   int       // bytes that were handed on
}

// A readDone is one reading that is over.
type readDone struct {
	m    *member
	over bool // the pod had ended before
	err  error
}

// Gather reads the runs of a pass until all are ended, and sets Plan.Fleet.Outcomes. Outcomes that the plan has already
// stay. Several clients may gather the same fleet. The signal must have been given: see Start.
func Gather(ctx context.Context, c *kube.Client, p *Plan, pass int, h Hooks) error {
	return gather(ctx, c, p, pass, h, usualPace)
}

func gather(ctx context.Context, c *kube.Client, p *Plan, pass int, h Hooks, at pace) error {
	if len(p.Fleet.Starts) < pass || p.Fleet.Starts[pass-1].IsZero() {
		return fmt.Errorf("pass %d of fleet %s has not begun", pass, p.Fleet.ID)
	}
	nodes, err := p.members(ctx, c, pass)
	if err != nil {
		return err
	}
	s, err := newSession(c, p, pass, nodes, h, at)
	if err != nil {
		return err
	}
	for _, m := range s.nodes {
		m.log = &reading{log: podlog.NewReader(), last: time.Now().Round(0)}
	}
	if s.pace.sweep == 0 {
		s.pace.sweep = sweepTime(len(s.nodes))
	}
	if err := s.follow(ctx); err != nil {
		return err
	}
	s.compareImages()
	s.setClocks()
	return nil
}

// members are the nodes of a pass, as indices: those with a Job or a known outcome.
func (p *Plan) members(ctx context.Context, c *kube.Client, pass int) ([]int, error) {
	var nodes []int
	if pass == 1 {
		for i := range p.Fleet.Nodes {
			nodes = append(nodes, i)
		}
		return nodes, nil
	}
	found, err := find(ctx, c, p)
	if err != nil {
		return nil, err
	}
	nodes = found.Passes[pass-1]
	for i, n := range p.Fleet.Nodes {
		if p.Fleet.OutcomeOf(n.Name, pass) != nil && !slices.Contains(nodes, i) {
			nodes = append(nodes, i)
		}
	}
	return nodes, nil
}

// follow watches the pods and reads their logs until all are ended.
func (s *session) follow(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	changes, failed := s.watch(ctx)
	g := &gathering{
		session: s, ctx: ctx, slots: make(chan struct{}, atOnce), read: make(chan readDone, atOnce),
		end:  s.p.Fleet.Starts[s.pass-1].Add(time.Duration(s.p.rounds(s.pass))*s.p.Fleet.RoundOf(s.pass) + s.pace.late),
		jobs: time.Now(),
	}
	s.server = s.serverAhead(ctx)
	tick := time.NewTicker(s.pace.tick)
	defer tick.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err = <-failed:
		case change := <-changes:
			if m := s.of(change.Pod); m != nil {
				err = g.changed(m, change)
			}
		case r := <-g.read:
			err = g.took(r)
		case <-tick.C:
			err = g.look()
		}
		if err != nil {
			return err
		}
		ended := 0
		for _, m := range s.nodes {
			ended += btoi(m.ended())
		}
		s.progress(Measuring, ended)
		if ended == len(s.nodes) {
			return nil
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// A gathering is the reading of a pass. Only its loop uses it.
type gathering struct {
	*session
	ctx   context.Context // of the loop
	slots chan struct{}   // one for each log that is being read
	under int             // how many are, or wait for it
	read  chan readDone
	end   time.Time // by the server's clock: what has not ended then is given up
	jobs  time.Time // members without a pod are looked at next
	blind time.Time // since then that fails; zero if it does not
}

// watch tells of the pods of the pass.
func (s *session) watch(ctx context.Context) (<-chan kube.Change, <-chan error) {
	changes, failed := make(chan kube.Change, 64), make(chan error, len(s.p.Fleet.Namespaces))
	for _, space := range s.p.Fleet.Namespaces {
		go func() {
			err := s.c.Watch(ctx, space, s.selector(), func(change kube.Change) error {
				select {
				case changes <- change:
					return nil
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			})
			if err != nil && ctx.Err() == nil {
				failed <- err
			}
		}()
	}
	return changes, failed
}

// changed takes a change of a member's pod.
func (g *gathering) changed(m *member, change kube.Change) error {
	if m.ended() {
		return nil
	}
	over, going := m.over(), m.going()
	g.see(m, change)
	if over != m.over() || going != m.going() {
		m.log.again = time.Time{} // its log may not be there for long
	}
	return g.attend(m)
}

// attend does what is to be done for a member now.
func (g *gathering) attend(m *member) error {
	now := time.Now()
	l := m.log
	switch {
	case m.ended() || m.pod == nil || l.busy:
		return nil
	case m.gone, m.over() && !m.hasLog():
		return g.finish(m, nil)
	case m.going() && !m.over() && now.Sub(m.since) > g.pace.gone:
		return g.finish(m, errSilent)
	case now.Before(l.again):
	case !l.failed.IsZero() && g.under >= atOnce/2 && now.Before(l.failed.Add(g.pace.lost)):
		// Dead nodes must not keep those from it that are there.
	case m.over(), m.going() && m.hasLog():
		g.ask(m)
	case m.running() && now.Sub(l.last) > g.pace.sweep && g.under < atOnce/2: // what is urgent needs the rest
		g.ask(m)
	}
	return nil
}

// hasLog reports whether the container has ever run.
func (m *member) hasLog() bool {
	c := m.pod.ContainerOf(container)
	return c != nil && (c.State.Running != nil || c.State.Terminated != nil)
}

// ask reads the log of a member.
func (g *gathering) ask(m *member) {
	l, pod, over := m.log, m.pod, m.over()
	l.busy, l.last = true, time.Now().Round(0)
	g.under++
	go func() {
		err := func() error {
			select {
			case g.slots <- struct{}{}:
				defer func() { <-g.slots }()
			case <-g.ctx.Done():
				return context.Cause(g.ctx)
			}
			return readLog(g.ctx, g.c, pod, l.log)
		}()
		select {
		case g.read <- readDone{m, over, err}:
		case <-g.ctx.Done():
		}
	}()
}

// maxLog is more than a pod of a fleet writes, in bytes.
const maxLog = 48 << 20

// readLog reads the log of a pod, all of it: its times are by the node's clock, which may be wrong.
func readLog(ctx context.Context, c *kube.Client, pod *kube.Pod, into *podlog.Reader) error {
	text, err := c.Log(ctx, pod.Namespace, pod.Name, container, maxLog)
	if err != nil {
		return err
	}
	defer func() { _ = text.Close() }() // it was only read
	return into.Read(text)
}

// took uses a reading that is over.
func (g *gathering) took(r readDone) error {
	m, l, now := r.m, r.m.log, time.Now()
	g.under--
	l.busy, l.again = false, now.Add(g.pace.retry)
	switch {
	case r.err == nil:
		l.failed, l.read = time.Time{}, l.last
	case l.failed.IsZero():
		l.failed = now
		g.trouble(fmt.Errorf("node %s: %w", m.name, r.err))
	}
	if m.over() && !r.over {
		l.again = time.Time{} // it has ended meanwhile
	}
	if r.over {
		l.tries++
		whole := l.log.Check(m.message())
		lost := !l.failed.IsZero() && now.Sub(l.failed) > g.pace.lost
		switch {
		case r.err == nil && (whole == nil || l.tries >= 3): // what is missing may still be on its way
			return g.finish(m, whole)
		case lost || m.gone || errors.Is(r.err, kube.ErrNotFound):
			return g.finish(m, fmt.Errorf("its log could not be read: %w", r.err))
		}
		return nil
	}
	if r.err == nil {
		if err := g.sink(m, false); err != nil {
			return err
		}
	}
	return g.attend(m)
}

// message is the termination message of the pod; "" = none is known.
func (m *member) message() string {
	if m.pod != nil {
		if c := m.pod.ContainerOf(container); c != nil && c.State.Terminated != nil {
			return c.State.Terminated.Message
		}
	}
	return ""
}

// sink hands on what was read of a member's run. If that is of no use, it ends the member.
func (g *gathering) sink(m *member, final bool) error {
	l := m.log
	if g.isOther(m) {
		return nil
	}
	part := Part{Node: m.name, Pass: g.pass, Network: m.network, Final: final, Trips: l.log.Trips()}
	if final {
		part.Records, _ = l.log.Records()
	} else {
		part.Records = l.log.Prefix()
	}
	unchanged := !final && len(part.Records) == l.sunk
	if g.hooks.Sink == nil || unchanged || len(part.Records)+len(part.Trips) == 0 {
		return nil
	}
	stored, err := g.hooks.Sink(g.ctx, part)
	if bad := (*BadRecords)(nil); errors.As(err, &bad) {
		g.fail(m, fleet.Failed, bad.Error())
		m.log = &reading{log: podlog.NewReader()} // the memory of thousands of them counts
		return nil
	}
	if err != nil {
		return fmt.Errorf("node %s: %w", m.name, err)
	}
	l.sunk = len(part.Records)
	o := m.outcome
	o.Run, o.Rounds = cmp.Or(stored.Run, o.Run), max(stored.Rounds, o.Rounds) // what is stored stays
	g.set(m, o)
	return nil
}

// isOther ends a member whose pod runs another version of tare: nobody knows whether it measures the same.
func (g *gathering) isOther(m *member) bool {
	hello, ok := m.log.log.Hello()
	if !ok || hello.Tool == g.p.Fleet.Tool {
		return false
	}
	g.fail(m, fleet.Failed, fmt.Sprintf("its image has tare %.80s, and the fleet was begun with %s", hello.Tool,
		g.p.Fleet.Tool))
	m.log = &reading{log: podlog.NewReader()} // the memory of thousands of them counts
	return true
}

// look does what is due with time alone.
func (g *gathering) look() error {
	now := time.Now()
	for _, m := range g.nodes {
		if err := g.attend(m); err != nil {
			return err
		}
	}
	if now.After(g.jobs) {
		g.jobs = now.Round(0).Add(g.pace.jobs) // by the wall clock, so that it is due after a sleep
		if err := g.lookForPods(); err != nil {
			return err
		}
	}
	late, stuck := now.Add(g.server).After(g.end), g.onlyStuck()
	for _, m := range g.nodes {
		if m.ended() || m.log.busy || !late && !stuck {
			continue
		}
		if late && !stuck && g.mayHaveMore(m, now) {
			continue
		}
		if err := g.finish(m, g.late(m)); err != nil {
			return err
		}
	}
	return nil
}

// mayHaveMore reports whether a member must not be given up yet, though its time is over: this client may have slept, or
// have begun only now. So it is looked for, and its log is read once more.
func (g *gathering) mayHaveMore(m *member, now time.Time) bool {
	l := m.log
	switch {
	case m.pod == nil:
		return !m.looked && (g.blind.IsZero() || time.Since(g.blind) <= g.pace.lost)
	case !m.hasLog() || l.read.Add(g.server).After(g.end):
		return false
	case !l.failed.IsZero() && now.Sub(l.failed) > g.pace.lost:
		return false
	}
	if !now.Before(l.again) && g.under < atOnce {
		g.ask(m)
	}
	return true
}

// late is why a member has not ended when all should have.
func (g *gathering) late(m *member) error {
	switch {
	case !m.log.failed.IsZero():
		return errSilent
	case m.running(), m.over():
		return errors.New("it has not ended in time")
	}
	why, _ := m.stuck()
	if m.pod == nil {
		why = m.outcome.Reason
	}
	return errors.New(joined("its pod did not begin", why))
}

// onlyStuck reports whether all that has not ended are pods that cannot start.
func (g *gathering) onlyStuck() bool {
	for _, m := range g.nodes {
		if m.ended() {
			continue
		}
		_, can := m.stuck()
		if m.pod == nil {
			can = !m.looked
		}
		if m.running() || m.over() || can || time.Since(m.since) < g.pace.stuck {
			return false
		}
	}
	return true
}

// lookForPods ends members that have no pod, nor will have one.
func (g *gathering) lookForPods() error {
	without := func(m *member) bool { return !m.ended() && m.pod == nil }
	if !slices.ContainsFunc(g.nodes, without) {
		return nil
	}
	failed := func(err error) {
		if g.blind.IsZero() {
			g.blind = time.Now()
		}
		g.trouble(err)
	}
	jobs := map[string]*kube.Job{}
	for _, space := range g.p.Fleet.Namespaces {
		all, err := kube.List[kube.Job](g.ctx, g.c, kube.Query{Namespace: space, Labels: g.selector()})
		if err != nil {
			failed(err)
			return nil
		}
		for i := range all {
			jobs[space+"/"+all[i].Name] = &all[i]
		}
	}
	if err := g.listPods(g.ctx); err != nil {
		failed(err)
		return nil
	}
	g.blind = time.Time{}
	for _, m := range g.nodes {
		if !without(m) {
			continue
		}
		if err := g.withoutPod(m, jobs[m.space+"/"+m.job]); err != nil {
			return err
		}
	}
	return nil
}

// withoutPod ends a member without a pod if its Job, nil if there is none, will make no more.
func (g *gathering) withoutPod(m *member, j *kube.Job) error {
	switch {
	case time.Since(m.since) < g.pace.stuck:
		return nil
	case j == nil, isTrue(j, "Complete"):
		return g.finish(m, errWent)
	case isTrue(j, "Failed"):
		c := kube.ConditionOf(j.Status.Conditions, "Failed")
		return g.finish(m, errors.New(joined(c.Reason, c.Message)))
	}
	return nil
}
