package cluster

import (
	"slices"
	"time"

	"github.com/tare-bench/tare/internal/fleet/kube"
)

// clockTrust is the smallest difference of clocks that is told: what is measured here has whole seconds, and comes with
// the delay of a watch.
const clockTrust = 2 * time.Second

// measureLag compares the time at which a change was seen with the time at which the node says that it was. Of several
// changes, the one that was seen soonest tells most of the node's clock.
func (m *member) measureLag(before, now *kube.Pod) {
	if before == nil || before.UID != now.UID {
		return // it may have been so for long
	}
	a, b := before.ContainerOf(container), now.ContainerOf(container)
	if b == nil {
		return
	}
	var said time.Time
	switch {
	case b.State.Running != nil && (a == nil || a.State.Running == nil):
		said = b.State.Running.Started
	case b.State.Terminated != nil && (a == nil || a.State.Terminated == nil):
		said = b.State.Terminated.Finished
	}
	if said.IsZero() {
		return
	}
	if lag := time.Since(said); m.lag == nil || lag < *m.lag {
		m.lag = &lag
	}
}

// setClocks tells how much the clocks of nodes differ from the median of all.
func (s *session) setClocks() {
	var all []time.Duration
	for _, m := range s.nodes {
		if m.lag != nil {
			all = append(all, *m.lag)
		}
	}
	if len(all) < 3 {
		return // whose clock is wrong cannot be known
	}
	slices.Sort(all)
	median := all[len(all)/2]
	for _, m := range s.nodes {
		if m.lag == nil {
			continue
		}
		o := m.outcome
		if o.Clock = (median - *m.lag).Round(time.Second); o.Clock.Abs() <= clockTrust {
			o.Clock = 0
		}
		s.set(m, o)
	}
}
