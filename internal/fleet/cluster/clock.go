package cluster

import (
	"context"
	"time"

	"github.com/tare-bench/tare/internal/fleet/kube"
)

// clockTrust is the smallest difference of clocks that is told and allowed for: what a cluster says of times has whole
// seconds, and comes with the delay of a watch.
const clockTrust = 2 * time.Second

// readClock notes what a pod says of its node's clock: it can only say of what has been. Of several such times, the one
// that was heard soonest tells most.
func (m *member) readClock(pod *kube.Pod) {
	c := pod.ContainerOf(container)
	if c == nil {
		return
	}
	var said time.Time
	switch {
	case c.State.Running != nil:
		said = c.State.Running.Started
	case c.State.Terminated != nil:
		said = c.State.Terminated.Finished
	}
	if said.IsZero() {
		return
	}
	if lag := time.Since(said); m.lag == nil || lag < *m.lag {
		m.lag = &lag
	}
}

// clock is how far a node's clock is ahead of that of the API server, which is ahead of this one by server; 0 = not
// further than can be told.
//
// As with NTP, two things are certain. The kubelet has taken the pod on after the server had made it, so its clock is
// ahead by the difference at most. And what it says has been when it is heard, so its clock is ahead by the difference
// at least. In between, a kubelet takes on a pod as soon as that is scheduled.
func (m *member) clock(server time.Duration) time.Duration {
	if m.pod == nil || m.lag == nil {
		return 0
	}
	took, made := m.pod.Status.Started, m.pod.Created
	if took.IsZero() || made.IsZero() {
		return 0
	}
	least, most := -*m.lag-server, took.Add(time.Second).Sub(made)
	if least > most || least <= clockTrust && most >= -clockTrust { // they contradict each other if server is wrong
		return 0
	}
	scheduled := made
	if c := kube.ConditionOf(m.pod.Status.Conditions, "PodScheduled"); c != nil && !c.Since.IsZero() {
		scheduled = c.Since
	}
	return min(max(took.Sub(scheduled), least), most).Round(time.Second)
}

// setClocks tells how far the clocks of nodes are off.
func (s *session) setClocks() {
	for _, m := range s.nodes {
		if ahead := m.clock(s.server); ahead != 0 && m.measures() {
			o := m.outcome
			o.Clock = ahead
			s.set(m, o)
		}
	}
}

// serverAhead is how far the clock of the API server is ahead of this one, to a second; 0 if it does not say. The
// nodes' clocks are nearer to the server's than this one may be.
func (s *session) serverAhead(ctx context.Context) time.Duration {
	m := &kube.ConfigMap{Meta: s.p.meta(rootName(s.p.Fleet.ID)+"-clock", s.p.Fleet.Namespaces[0])}
	asked := time.Now()
	if err := s.c.DryRun(ctx, m); err != nil || m.Created.IsZero() {
		return 0
	}
	took := time.Since(asked)
	return m.Created.Add(time.Second / 2).Sub(asked.Add(took / 2)) // it has whole seconds
}
