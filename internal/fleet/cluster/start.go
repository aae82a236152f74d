package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tare-bench/tare/internal/fleet"
	"github.com/tare-bench/tare/internal/fleet/kube"
)

// signalTime lies between the signal and the first round: a kubelet shows a ConfigMap that is new to a pod after 60 to
// 120 seconds.
const signalTime = 2 * time.Minute

// atOnce is how many requests for Jobs and logs are made side by side.
const atOnce = 16

// Start makes a pass of a fleet: its objects at the client's pace, then, when all pods run that can, the signal to
// begin. What another client has made already is left as it is. nodes are those of the pass, as indices; nil = all.
// It sets the pass's beginning in Plan.Fleet.Starts, and Outcomes. The error is a NotStarted if nothing can be measured;
// after any other, pods may run, and Start can be called again.
func Start(ctx context.Context, c *kube.Client, p *Plan, pass int, nodes []int, h Hooks) error {
	return start(ctx, c, p, pass, nodes, h, usualPace)
}

func start(ctx context.Context, c *kube.Client, p *Plan, pass int, nodes []int, h Hooks, at pace) error {
	if nodes == nil {
		for i := range p.Fleet.Nodes {
			nodes = append(nodes, i)
		}
	}
	s, err := newSession(c, p, pass, nodes, h, at)
	if err != nil {
		return err
	}
	if err := s.makeRoots(ctx); err != nil {
		return err
	}
	signal, err := s.readStart(ctx)
	if err != nil {
		return err
	}
	if signal == nil {
		if err := s.makeJobs(ctx); err != nil {
			return err
		}
		waited := s.awaitPods(ctx)
		signal, err = s.readStart(ctx) // another client may have been faster, and all may be over
		switch {
		case err != nil: // then it is not known whether all has begun
			return err
		case signal == nil && waited != nil:
			return waited
		case signal == nil:
			signal = s.signal(ctx)
		}
	}
	return s.writeStart(ctx, signal)
}

// NotStarted is the error of a pass that measures nothing: the cluster refuses every Job, or no pod can run.
type NotStarted struct{ Err error }

func (e *NotStarted) Error() string { return e.Err.Error() }

// Unwrap returns why.
func (e *NotStarted) Unwrap() error { return e.Err }

// makeRoots makes the ConfigMaps and the Secrets that Jobs need, or finds those that are there.
func (s *session) makeRoots(ctx context.Context) error {
	id := s.p.Fleet.ID
	s.owners = map[string][]kube.Owner{}
	for _, space := range s.p.Fleet.Namespaces {
		root, err := s.p.root(space)
		if err != nil {
			return err
		}
		if err := s.make(ctx, root, func() error { return belongs(&root.Meta, id, nil) }); err != nil {
			return err
		}
		s.owners[space] = []kube.Owner{kube.OwnerOf(root)}
	}
	if err := s.agreeOnToken(ctx); err != nil {
		return err
	}
	for _, space := range s.p.Fleet.Namespaces[1:] {
		if err := s.makeOrder(ctx, space); err != nil {
			return err
		}
	}
	return nil
}

// agreeOnToken makes a Secret with the same token in each namespace, or finds that there is one. Secrets cannot be read
// with the rights of a fleet: so each client makes its own in all of them, and those count that the order of the first
// namespace names, which is made when they are all there.
func (s *session) agreeOnToken(ctx context.Context) error {
	first := s.p.Fleet.Namespaces[0]
	draw, err := s.p.findDraw(ctx, s.c)
	if err == nil {
		s.p.draw = draw
		return s.makeOrder(ctx, first)
	}
	if !errors.Is(err, kube.ErrNotFound) {
		return err
	}
	token := randomText(32)
	s.p.draw = randomText(8)
	for _, space := range s.p.Fleet.Namespaces {
		if err := s.c.Create(ctx, s.p.token(space, token, s.owners[space])); err != nil && !errors.Is(err, kube.ErrExists) {
			return err
		}
	}
	return s.makeOrder(ctx, first)
}

// makeOrder makes the order of a namespace, or takes that of another client.
func (s *session) makeOrder(ctx context.Context, space string) error {
	owners := s.owners[space]
	order, err := s.p.order(space, owners)
	if err != nil {
		return err
	}
	if err := s.make(ctx, order, func() error { return belongs(&order.Meta, s.p.Fleet.ID, owners) }); err != nil {
		return err
	}
	s.p.draw = order.Data[drawKey]
	return nil
}

// findDraw reads which Secrets the pods of a fleet are given.
func (p *Plan) findDraw(ctx context.Context, c *kube.Client) (string, error) {
	order := &kube.ConfigMap{Meta: kube.Meta{Name: orderName(p.Fleet.ID), Namespace: p.Fleet.Namespaces[0]}}
	err := c.Get(ctx, order)
	return order.Data[drawKey], err
}

// make makes an object, or reads the one that is there and lets check say whether it is ours.
func (s *session) make(ctx context.Context, o kube.Object, check func() error) error {
	err := s.c.Create(ctx, o)
	if !errors.Is(err, kube.ErrExists) {
		return err
	}
	if err := s.c.Get(ctx, o); err != nil {
		return err
	}
	return check()
}

// errForeign means that an object has the name of one of ours.
var errForeign = errors.New("is there already, and is not of this fleet: begin a new fleet, or remove it")

// belongs returns an error if an object is not of the fleet: it needs the label and one of the owners.
func belongs(m *kube.Meta, id string, owners []kube.Owner) error {
	if m.Labels[kube.LabelRun] == id && (owners == nil || owned(m, owners)) {
		return nil
	}
	return fmt.Errorf("%s/%s %w", m.Namespace, m.Name, errForeign)
}

func owned(m *kube.Meta, owners []kube.Owner) bool {
	return slices.ContainsFunc(m.Owners, func(o kube.Owner) bool {
		return slices.ContainsFunc(owners, func(w kube.Owner) bool { return o.UID == w.UID && o.UID != "" })
	})
}

// readStart reads the signal; nil if it was not given.
func (s *session) readStart(ctx context.Context) (*fleet.Start, error) {
	space := s.p.Fleet.Namespaces[0]
	m := &kube.ConfigMap{Meta: kube.Meta{Name: startName(s.p.Fleet.ID, s.pass), Namespace: space}}
	switch err := s.c.Get(ctx, m); {
	case errors.Is(err, kube.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return parseStart(m)
}

// parseStart reads a signal.
func parseStart(m *kube.ConfigMap) (*fleet.Start, error) {
	var start fleet.Start
	err := json.Unmarshal([]byte(m.Data[fleet.StartFile]), &start)
	if err != nil || start.Pass < 1 || start.Pass > 2 || start.Began.IsZero() {
		return nil, fmt.Errorf("ConfigMap %s/%s is no signal of a fleet: clean the fleet, and begin a new one",
			m.Namespace, m.Name)
	}
	return &start, nil
}

// setStart keeps when a pass begins, and what was allowed for.
func (p *Plan) setStart(start *fleet.Start) {
	f := &p.Fleet
	for len(f.Starts) < start.Pass {
		f.Starts = append(f.Starts, time.Time{})
	}
	f.Starts[start.Pass-1] = start.Began
	for len(f.Ahead) < start.Pass {
		f.Ahead = append(f.Ahead, map[string]time.Duration{})
	}
	for _, peer := range start.Peers {
		if peer.Ahead != 0 {
			f.Ahead[start.Pass-1][peer.Node] = peer.Ahead
		}
	}
}

// makeJobs makes a Job for each node, in no order, at the client's pace. A Job that the cluster refuses is the outcome
// of its node; it is an error only if all are.
func (s *session) makeJobs(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	type result struct {
		m   *member
		err error
	}
	work, results := make(chan *member), make(chan result)
	var workers sync.WaitGroup
	for range min(atOnce, len(s.nodes)) {
		workers.Go(func() {
			for m := range work {
				results <- result{m, s.makeJob(ctx, m)}
			}
		})
	}
	go func() {
		for _, m := range s.nodes {
			work <- m
		}
		close(work)
		workers.Wait()
		close(results)
	}()
	made, n := 0, 0 // of pods that measure a node; of all
	var refusal, failure error
	for r := range results {
		n++
		switch {
		case r.err == nil:
			made += btoi(r.m.measures())
			r.m.since = time.Now()
			o := r.m.outcome
			if r.m.ended() { // it was refused before: nothing can have been read before the signal
				o = fleet.Outcome{Node: r.m.name, Pass: s.pass, State: fleet.Waiting}
			}
			s.set(r.m, o)
		case errors.Is(r.err, kube.ErrForbidden), errors.Is(r.err, kube.ErrInvalid), errors.Is(r.err, errForeign):
			refusal = r.err
			s.fail(r.m, fleet.Failed, r.err.Error())
		case failure == nil:
			failure = r.err
			stop(r.err)
		}
		s.progress(Creating, n)
	}
	if failure == nil && made == 0 {
		failure = &NotStarted{fmt.Errorf("the cluster refuses the Job of every node: %w", refusal)}
	}
	return failure
}

// makeJob makes the Job of a node, or finds that it is there.
func (s *session) makeJob(ctx context.Context, m *member) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	owners := s.owners[m.space]
	j := s.p.job(s.pass, m.index, m.network, len(s.nodes), owners)
	return s.make(ctx, j, func() error { return belongs(&j.Meta, s.p.Fleet.ID, owners) })
}

// awaitPods waits until all pods run that can.
func (s *session) awaitPods(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	changes, failed := s.watch(ctx)
	tick := time.NewTicker(s.pace.tick)
	defer tick.Stop()
	over := time.After(rampLimit(len(s.nodes)))
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-failed:
			return err
		case change := <-changes:
			if m := s.of(change.Pod); m != nil {
				s.see(m, change)
			}
			continue
		case <-over:
			return s.someRun() // others may still come
		case <-tick.C:
		}
		if s.ready(ctx) {
			if err := s.someRun(); err != nil {
				return &NotStarted{err}
			}
			return nil
		}
	}
}

// ready reports whether there is nothing to wait for. It names the nodes whose pods cannot start.
func (s *session) ready(ctx context.Context) bool {
	run, waiting := 0, 0
	for _, m := range s.nodes {
		stood := time.Since(m.since)
		switch {
		case m.running():
			run++
		case m.ended(), m.over():
		case stood < s.pace.stuck, m.pod == nil && stood < s.pace.stuck+rampTime(len(s.nodes)):
			waiting++
		case !m.looked:
			waiting++
			if err := s.listPods(ctx); err != nil {
				s.trouble(err)
			}
		case m.pod == nil:
			if !m.asked {
				m.asked = true
				s.fail(m, fleet.Waiting, s.noPod(ctx, m))
			}
		default:
			why, can := m.stuck()
			waiting += btoi(can)
			s.fail(m, fleet.Waiting, why)
		}
	}
	s.progress(Starting, run)
	return waiting == 0
}

// maxAsked is of how many Jobs it is asked why they have no pod: it is the same for most.
const maxAsked = 20

// noPod is why a Job has made no pod.
func (s *session) noPod(ctx context.Context, m *member) string {
	const unknown = "its Job has made no pod yet"
	if s.asked++; s.asked > maxAsked {
		return unknown
	}
	events, err := kube.List[kube.Event](ctx, s.c, kube.Query{
		Namespace: m.space, Fields: "involvedObject.kind=Job,involvedObject.name=" + m.job,
	})
	if err != nil {
		return unknown
	}
	for _, e := range slices.Backward(events) {
		if e.Type == "Warning" && e.Involved.Name == m.job {
			return joined(e.Reason, e.Message)
		}
	}
	return unknown
}

// someRun returns nil if the fleet can be measured with the pods that run.
func (s *session) someRun() error {
	reasons := map[string]int{}
	most := ""
	for _, m := range s.nodes {
		if !m.measures() {
			continue
		}
		if m.running() {
			return nil
		}
		why := m.outcome.Reason
		if m.over() {
			why = m.ending()
		}
		if reasons[why]++; reasons[why] > reasons[most] {
			most = why
		}
	}
	switch {
	case most == "":
		most = "nobody says why"
	case strings.Contains(most, "ImagePull") && strings.HasPrefix(s.p.Fleet.Image, ownHost):
		most += ": nobody can pull " + s.p.Fleet.Image + ": tare fleet image -o FILE, and import that on each node"
	case strings.Contains(most, "ImagePull"):
		most += ": if the registry wants credentials, --pull-secret names a Secret that has them"
	}
	return fmt.Errorf("no pod of %d runs: %s", len(s.nodes)/len(s.p.podsOf(s.pass)), most)
}

// signal is the signal to the pods that run.
func (s *session) signal(ctx context.Context) *fleet.Start {
	f := &s.p.Fleet
	s.server = s.serverAhead(ctx)
	start := &fleet.Start{Pass: s.pass, Round: f.RoundOf(s.pass), Seed: f.Seed, Peers: []fleet.Peer{}}
	var off []string
	for i, m := range s.nodes {
		if !m.measures() || !m.running() {
			continue
		}
		peer := fleet.Peer{Index: m.index, Node: m.name, Address: m.pod.Status.IP, Ahead: m.clock(s.server)}
		if peer.Ahead != 0 {
			off = append(off, fmt.Sprintf("%s by %v", m.name, peer.Ahead))
		}
		if len(f.Networks) > 0 {
			peer.Zone = f.Nodes[m.index].Zone
		}
		if i+1 < len(s.nodes) && s.nodes[i+1].index == m.index && s.nodes[i+1].running() {
			peer.Host = s.nodes[i+1].pod.Status.IP
		}
		start.Peers = append(start.Peers, peer)
	}
	if len(off) > 0 {
		s.trouble(fmt.Errorf("%d clocks are off (%s): the rounds of these nodes begin with those of the others all the same",
			len(off), few(off)))
	}
	if s.server.Abs() > clockTrust {
		s.trouble(fmt.Errorf("the clock of the API server is %v ahead of this one: rounds go by the cluster's clocks",
			s.server.Round(time.Second)))
	}
	start.Began = time.Now().UTC().Add(s.server + cmp.Or(s.p.Lead, s.pace.signal)).Truncate(time.Second)
	return start
}

// few names some of many.
func few(all []string) string {
	const most = 5
	if len(all) <= most {
		return strings.Join(all, ", ")
	}
	return strings.Join(all[:most], ", ") + ", …"
}

// writeStart gives the signal in all namespaces. If another client was faster, its signal is the one that counts.
func (s *session) writeStart(ctx context.Context, signal *fleet.Start) error {
	for _, space := range s.p.Fleet.Namespaces {
		m, err := s.p.start(space, *signal, s.owners[space])
		if err != nil {
			return err
		}
		err = s.make(ctx, m, func() error { return belongs(&m.Meta, s.p.Fleet.ID, s.owners[space]) })
		if err != nil {
			return err
		}
		if signal, err = parseStart(m); err != nil {
			return err
		}
	}
	s.p.setStart(signal)
	return nil
}
