package cluster

import (
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/fleet"
	"github.com/tare-bench/tare/internal/fleet/kube"
	"github.com/tare-bench/tare/internal/fleet/kube/kubetest"
	"github.com/tare-bench/tare/internal/fleet/podlog"
)

// A clock is told to be wrong only if nothing else explains what its node says.
func TestClock(t *testing.T) {
	const s = time.Second
	for _, tt := range []struct {
		name            string
		scheduled, took time.Duration // after the pod was made
		lag, server     time.Duration
		want            time.Duration
	}{
		{name: "right", took: s, lag: s},
		{name: "an hour ahead", took: time.Hour, lag: 2*s - time.Hour, want: time.Hour},
		{name: "an hour behind", took: -time.Hour, lag: time.Hour + 2*s, want: -time.Hour},
		{name: "five seconds ahead", took: 5 * s, lag: -4 * s, want: 5 * s},
		{name: "five seconds behind", took: -5 * s, lag: 6 * s, want: -5 * s},
		{name: "heard a minute late", lag: time.Minute},
		{name: "a kubelet that is slow", took: 10 * s, lag: s},
		{name: "long without a place", scheduled: time.Minute, took: time.Minute + s, lag: 2 * s},
		{
			name: "the same, and an hour ahead", scheduled: time.Minute, took: time.Hour + time.Minute,
			lag: 2*s - time.Hour, want: time.Hour,
		},
		{name: "this machine is an hour behind", lag: 2*s - time.Hour, server: time.Hour},
		{name: "this machine is an hour ahead", lag: time.Hour + 2*s, server: -time.Hour},
		{name: "this machine is an hour behind, and nobody knows", took: s, lag: 2*s - time.Hour},
	} {
		pod := &kube.Pod{Meta: kube.Meta{Created: time.Unix(1e9, 0)}}
		pod.Status.Started = pod.Created.Add(tt.took)
		pod.Status.Conditions = []kube.Condition{{Type: "PodScheduled", Since: pod.Created.Add(tt.scheduled)}}
		m := member{pod: pod, lag: &tt.lag}
		if got := m.clock(tt.server); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	m := member{pod: &kube.Pod{}}
	m.readClock(m.pod)
	if got := m.clock(0); got != 0 {
		t.Errorf("a pod that says nothing: %v", got)
	}
}

// A clock is why a node has measured nothing only if it is off by what pods have until the first round, and if this pass
// has not allowed for it.
func TestIsAtWrongTime(t *testing.T) {
	for _, tt := range []struct {
		off, lead time.Duration
		allowed   []time.Duration // in each pass
		want      bool
	}{
		{off: time.Hour, lead: time.Minute, want: true},
		{off: -time.Hour, lead: time.Minute, want: true},
		{off: 3 * time.Second, lead: time.Minute},
		{lead: 0},
		{off: time.Hour, lead: time.Minute, allowed: []time.Duration{0, time.Hour}},
		{off: time.Hour, lead: time.Minute, allowed: []time.Duration{time.Hour, 0}, want: true},
	} {
		pod := &kube.Pod{Meta: kube.Meta{Created: time.Unix(1e9, 0)}}
		pod.Status.Started = pod.Created.Add(tt.off)
		lag := -tt.off
		p := &Plan{Lead: tt.lead}
		for _, ahead := range tt.allowed {
			p.Fleet.Ahead = append(p.Fleet.Ahead, map[string]time.Duration{"n": ahead})
		}
		g := gathering{session: &session{p: p, pass: 2}}
		if got := g.isAtWrongTime(&member{name: "n", pod: pod, lag: &lag}); got != tt.want {
			t.Errorf("%+v: %v", tt, got)
		}
	}
}

// TestSkewedClocks has clocks that are off by an hour and by seconds: the signal allows for them. A node that came too
// late for that, and has measured nothing, says why.
func TestSkewedClocks(t *testing.T) {
	off := map[string]time.Duration{"b": time.Hour, "c": -5 * time.Second, "late": -time.Hour}
	s := kubetest.Start(t, kubetest.Options{
		Ahead: func(node string) time.Duration { return off[node] },
		Run: func(p *kubetest.Process) kubetest.Ending {
			if p.Node != "late" {
				return play(p, nil)
			}
			p.Waiting("ImagePullBackOff", "not yet")
			for given := false; !given && p.Context().Err() == nil; time.Sleep(5 * time.Millisecond) {
				_, given = p.File(fleet.StartDir + "/" + fleet.StartFile)
			}
			p.Running()
			d := podlog.Digest{Outcome: podlog.Failed, Reason: "it waited in vain", Lines: 1, SHA256: "0"}
			return kubetest.Ending{Code: 1, Message: string(d.Message())}
		},
	}, "a", "b", "c", "late")
	p, kept := plan("a", "b", "c", "late"), newStore()
	mustRun(t, s.Client(), p, kept.hooks())
	for _, n := range []string{"a", "b", "c"} {
		check(t, p, n, fleet.Done, rounds, "")
		allowed := p.Fleet.AheadIn(1, n)
		if (allowed-off[n]).Abs() > clockTrust || off[n] == 0 && allowed != 0 || p.Fleet.OutcomeOf(n, 1).Clock != allowed {
			t.Errorf("%s: %v is allowed for, want %v; its outcome: %+v", n, allowed, off[n], p.Fleet.OutcomeOf(n, 1))
		}
		if said := has(kept.troubles, n+" by "); said != (off[n] != 0) {
			t.Errorf("%s: told: %q", n, kept.troubles)
		}
	}
	check(t, p, "late", fleet.Failed, 0, "its clock is off by -1h0m0s: it waited in vain")
	other, err := Find(t.Context(), s.Client(), "default", p.Fleet.ID)
	if err != nil || other.Fleet.AheadIn(1, "b") != p.Fleet.AheadIn(1, "b") || len(other.Fleet.Ahead[0]) != 2 {
		t.Errorf("another client knows of %v, %v", other, err)
	}
	mustClean(t, s, p)
}
