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
	"github.com/tare-bench/tare/internal/fleet/pairs"
)

// A pace is how long things are waited for. Tests have others.
type pace struct {
	tick   time.Duration // between two looks at what has changed with time alone
	stuck  time.Duration // a pod that cannot start is named then
	retry  time.Duration // between two tries to read a log
	lost   time.Duration // a log that cannot be read is given up then
	gone   time.Duration // a pod that was to go and does not end is given up then
	signal time.Duration // signalTime
	sweep  time.Duration // between two readings of the log of a pod that runs; 0 = sweepTime
	jobs   time.Duration // between two looks for pods that nobody has told of
	late   time.Duration // after the last round, until pods that have not ended are given up
}

var usualPace = pace{
	tick: time.Second, stuck: time.Minute, retry: 2 * time.Second, lost: 90 * time.Second, gone: grace + 90*time.Second,
	signal: signalTime, jobs: time.Minute, late: 10 * time.Minute,
}

// A session is one pass of a fleet, as one client sees it. Its fields belong to the goroutine that made it.
type session struct {
	c       *kube.Client
	p       *Plan
	pass    int
	hooks   Hooks
	pace    pace
	nodes   []*member               // one for each pod of each node, by index; the one that measures the node comes first
	owners  map[string][]kube.Owner // the root of each namespace
	done    map[Phase]int           // what was told last
	asked   int                     // Jobs of which it was asked why they have no pod
	lacking int                     // see lack
	server  time.Duration           // how far the clock of the API server is ahead of this one, once it was asked
}

// A member is one pod in a pass, and its node.
type member struct {
	index   int // in the plan
	network string
	name    string
	space   string
	job     string
	pod     *kube.Pod // as it was last seen; nil = it was never seen
	gone    bool      // the pod
	since   time.Time // by the client's clock: when the pod, or the lack of it, was last seen to change
	outcome fleet.Outcome
	log     *reading
	asked   bool           // why there is no pod
	told    bool           // that the pod, of another network than that of pods, does not do its part
	looked  bool           // for a pod, and there was none
	lag     *time.Duration // how much later something was heard than the node says it was, at least; nil = unknown
}

func newSession(c *kube.Client, p *Plan, pass int, nodes []int, h Hooks, at pace) (*session, error) {
	s := &session{c: c, p: p, pass: pass, hooks: h, pace: at, done: map[Phase]int{}}
	f := &p.Fleet
	if err := p.check(); err != nil {
		return nil, err
	}
	if pass < 1 || pass > 2 || p.rounds(pass) < 1 {
		return nil, fmt.Errorf("fleet %s has no pass %d", f.ID, pass)
	}
	nodes = slices.Clone(nodes)
	slices.Sort(nodes)
	for _, i := range slices.Compact(nodes) {
		if i < 0 || i >= len(f.Nodes) {
			return nil, fmt.Errorf("fleet %s has no node number %d", f.ID, i)
		}
		for _, network := range p.podsOf(pass) {
			m := &member{
				index: i, network: network, name: f.Nodes[i].Name, space: p.spaceOf(i),
				job: jobName(f.ID, pass, i, network), since: time.Now(),
				outcome: fleet.Outcome{Node: f.Nodes[i].Name, Pass: pass, State: fleet.Waiting},
			}
			if known := f.OutcomeOf(m.name, pass); known != nil && m.measures() {
				m.outcome = *known
			}
			s.nodes = append(s.nodes, m)
		}
	}
	return s, nil
}

// measures reports whether the pod measures the node itself. Others only meet their like.
func (m *member) measures() bool { return m.network == pairs.Pod }

// of returns the member that a pod is of; nil if the pod is none of ours, whatever its labels say.
func (s *session) of(pod *kube.Pod) *member {
	index, err := parseIndex(pod.Labels[labelIndex])
	if err != nil {
		return nil
	}
	first, _ := slices.BinarySearchFunc(s.nodes, index, func(m *member, index int) int { return m.index - index })
	i := slices.IndexFunc(s.nodes[first:], func(m *member) bool {
		return m.index != index || m.network == pod.Labels[labelNetwork]
	})
	if i < 0 || s.nodes[first+i].index != index {
		return nil
	}
	m := s.nodes[first+i]
	made := slices.ContainsFunc(pod.Owners, func(o kube.Owner) bool { return o.Kind == "Job" && o.Name == m.job })
	if pod.Namespace != m.space || !made || pod.Labels[kube.LabelRun] != s.p.Fleet.ID {
		return nil
	}
	return m
}

// progress tells how many nodes are as a phase wants them, by how many of their pods are.
func (s *session) progress(phase Phase, pods int) {
	each := len(s.p.podsOf(s.pass))
	done := pods / each
	if last, told := s.done[phase]; s.hooks.Progress != nil && (!told || last != done) {
		s.hooks.Progress(phase, done, len(s.nodes)/each)
	}
	s.done[phase] = done
}

func (s *session) trouble(err error) {
	if s.hooks.Trouble != nil && err != nil {
		s.hooks.Trouble(err)
	}
}

// set keeps the outcome of a member, and tells of it if it has changed. That of a node is what becomes of the pod that
// measures it: what another one lacks is told, and missing among the round trips.
func (s *session) set(m *member, o fleet.Outcome) {
	if !m.measures() {
		if o.Reason != "" && !m.told {
			m.told = true
			s.lack(m.name, o.Reason)
		}
		m.outcome = o
		return
	}
	if old := s.p.Fleet.OutcomeOf(m.name, s.pass); old != nil && sameOutcome(*old, o) {
		return
	}
	m.outcome = o
	s.p.Fleet.SetOutcome(o)
	if s.hooks.Outcome != nil {
		s.hooks.Outcome(o)
	}
}

// lack tells that a node's pod in the hosts' network does not do its part; of many nodes it is the same.
func (s *session) lack(node, reason string) {
	const most = 5
	switch s.lacking++; {
	case s.lacking <= most:
		s.trouble(fmt.Errorf("node %s, its pod in the hosts' network: %s", node, reason))
	case s.lacking == most+1:
		s.trouble(errors.New("more pods in the hosts' network do not do their part: the round trips will say which"))
	}
}

func sameOutcome(a, b fleet.Outcome) bool {
	same := slices.Equal(a.Admitted, b.Admitted)
	a.Admitted, b.Admitted = nil, nil
	return same && fmt.Sprint(a) == fmt.Sprint(b)
}

// selector fits the objects of the pass.
func (s *session) selector() string {
	return fmt.Sprintf("%s=%s,%s=%d", kube.LabelRun, s.p.Fleet.ID, labelPass, s.pass)
}

// fail ends a member, or says why it waits. What is stored of it stays.
func (s *session) fail(m *member, state fleet.State, reason string) {
	o := m.outcome
	o.State, o.Reason = state, reason
	s.set(m, o)
}

// ended reports whether a member's outcome will not change any more.
func (m *member) ended() bool {
	s := m.outcome.State
	return s == fleet.Done || s == fleet.Failed || s == fleet.Gone
}

// see notes how a pod is now.
func (s *session) see(m *member, change kube.Change) {
	pod := change.Pod
	if m.pod != nil && m.pod.UID != pod.UID && !m.gone {
		return // a second pod of a Job that has one
	}
	before := m.pod
	if before == nil || phase(before) != phase(pod) || change.Gone != m.gone {
		m.since = time.Now()
	}
	m.readClock(pod)
	m.pod, m.gone = pod, change.Gone
	o := m.outcome
	o.Address = cmp.Or(pod.Status.IP, o.Address)
	if c := pod.ContainerOf(container); c != nil {
		o.ImageID = cmp.Or(c.ImageID, o.ImageID)
	}
	if o.Admitted == nil {
		o.Admitted = differences(s.p.pod(m.name, s.pass, m.network), pod.Spec)
	}
	if m.running() && !m.ended() {
		o.State, o.Reason = fleet.Running, ""
	}
	s.set(m, o)
}

// phase is what of a pod's state matters to how long it has been so.
func phase(pod *kube.Pod) string {
	c := pod.ContainerOf(container)
	switch {
	case !pod.Deleted.IsZero():
		return pod.Status.Phase + ", and to go"
	case c != nil && c.State.Running != nil:
		return "Running"
	}
	return pod.Status.Phase
}

// running reports whether the pod runs, and its peers can reach it.
func (m *member) running() bool {
	return m.pod != nil && !m.gone && m.pod.Deleted.IsZero() && phase(m.pod) == "Running" && m.pod.Status.IP != ""
}

// going reports whether the pod is to go, as when its node is drained.
func (m *member) going() bool { return m.pod != nil && !m.pod.Deleted.IsZero() }

// over reports whether the pod has ended.
func (m *member) over() bool {
	if m.pod == nil {
		return false
	}
	p := m.pod.Status.Phase
	return m.gone || p == "Succeeded" || p == "Failed"
}

// listPods looks for the pods of members that the watch has not told of: it may not have been heard.
func (s *session) listPods(ctx context.Context) error {
	for _, space := range s.p.Fleet.Namespaces {
		pods, err := kube.List[kube.Pod](ctx, s.c, kube.Query{Namespace: space, Labels: s.selector()})
		if err != nil {
			return err
		}
		for i := range pods {
			if m := s.of(&pods[i]); m != nil && m.pod == nil {
				s.see(m, kube.Change{Pod: &pods[i]})
			}
		}
	}
	for _, m := range s.nodes {
		m.looked = true
	}
	return nil
}

// stuck is why a pod does not run. can says that it still may: an image that is large takes its time.
func (m *member) stuck() (why string, can bool) {
	if m.pod == nil {
		return "", true
	}
	if c := m.pod.ContainerOf(container); c != nil && c.State.Waiting != nil {
		w := c.State.Waiting
		switch w.Reason {
		case "", "ContainerCreating", "PodInitializing":
			return "its container is being made", true
		}
		return joined(w.Reason, w.Message), false
	}
	if c := kube.ConditionOf(m.pod.Status.Conditions, "PodScheduled"); c != nil && c.Status == "False" {
		return joined(c.Reason, c.Message), false
	}
	return joined(m.pod.Status.Reason, m.pod.Status.Message), true
}

func joined(reason, message string) string {
	if reason == "" || message == "" {
		return reason + message
	}
	return reason + ": " + message
}
