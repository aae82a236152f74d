package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/fleet"
	"github.com/tare-bench/tare/internal/fleet/kube"
	"github.com/tare-bench/tare/internal/fleet/podlog"
)

// finish ends a member: nothing more is read of it. why is what kept the rest from being read; nil = nothing did.
func (g *gathering) finish(m *member, why error) error {
	if err := g.sink(m, true); err != nil || m.ended() {
		return err
	}
	o := m.outcome
	planned := g.p.rounds(g.pass)
	o.State, o.Reason = fleet.Failed, m.ending()
	if o.Reason == "" && why != nil {
		o.Reason = why.Error()
	}
	switch {
	case o.Rounds >= planned, !m.measures() && o.Reason == "":
		o.State, o.Reason = fleet.Done, ""
	case m.gone, m.going(), m.disrupted() != "", errors.Is(why, errWent), errors.Is(why, errSilent):
		o.State = fleet.Gone
		if o.Rounds > 0 {
			o.Reason = fmt.Sprintf("gone since round %d: %s", o.Rounds+1, o.Reason)
		}
	case o.Rounds == 0 && g.isAtWrongTime(m):
		o.Reason = joined(fmt.Sprintf("its clock is off by %v", m.clock(g.server)), o.Reason)
	case o.Reason == "":
		o.Reason = fmt.Sprintf("only %d of %d rounds are whole: its start signal came late, or its blocks take longer than "+
			"a round, and a longer --round helps", o.Rounds, planned)
	}
	g.set(m, o)
	m.log = &reading{log: podlog.NewReader()} // the memory of thousands of them counts
	return nil
}

// isAtWrongTime reports whether a member's clock, for which the signal has not allowed, is off by more than the pods had
// until the first round.
func (g *gathering) isAtWrongTime(m *member) bool {
	off := m.clock(g.server)
	return off != 0 && off.Abs() >= cmp.Or(g.p.Lead, g.pace.signal) && g.p.Fleet.AheadIn(g.pass, m.name) == 0
}

// Why nothing more is to be had of a member.
var (
	errWent   = errors.New("its Job or pod is not there any more")
	errSilent = errors.New("its node does not answer")
)

// disrupted is why the cluster ended the pod before its time; "" = it did not.
func (m *member) disrupted() string {
	if m.pod == nil {
		return ""
	}
	if c := kube.ConditionOf(m.pod.Status.Conditions, disruption); c != nil && c.Status == "True" {
		return joined(c.Reason, c.Message)
	}
	return ""
}

// ending is why a pod ended, as far as somebody says; "" = it ended well, or has not ended.
func (m *member) ending() string {
	if m.pod == nil {
		return ""
	}
	if why := m.disrupted(); why != "" {
		return why
	}
	if s := m.pod.Status; s.Reason != "" || s.Message != "" {
		return joined(s.Reason, s.Message) // such as Evicted, DeadlineExceeded
	}
	c := m.pod.ContainerOf(container)
	if c == nil || c.State.Terminated == nil {
		if m.gone {
			return "its pod was removed"
		}
		return ""
	}
	t := c.State.Terminated
	d, ok := podlog.ParseDigest(t.Message)
	switch {
	case ok && d.Outcome == podlog.Failed:
		return d.Reason
	case t.ExitCode == 0:
		return ""
	}
	text := t.Reason
	if text == "" || text == "Error" {
		text = fmt.Sprintf("exit code %d", t.ExitCode)
	}
	if m.log != nil {
		words := m.log.log.Words()
		for i := len(words) - 1; i >= 0; i-- {
			if !strings.HasPrefix(strings.TrimSpace(words[i]), "→") { // advice to somebody on the node
				return joined(text, words[i])
			}
		}
	}
	return text
}

// compareImages notes the nodes that ran another image than most of their architecture.
func (s *session) compareImages() {
	count := map[[2]string]int{}
	key := func(m *member) [2]string { return [2]string{s.p.Fleet.Nodes[m.index].Arch, m.outcome.ImageID} }
	for _, m := range s.nodes {
		if m.outcome.ImageID != "" && m.measures() {
			count[key(m)]++
		}
	}
	most := map[string]string{}
	for k, n := range count {
		best, known := most[k[0]]
		than := count[[2]string{k[0], best}]
		if !known || n > than || n == than && k[1] < best {
			most[k[0]] = k[1]
		}
	}
	for _, m := range s.nodes {
		if id := m.outcome.ImageID; id != "" && m.measures() && id != most[key(m)[0]] {
			o := m.outcome
			o.Admitted = append(slices.Clone(o.Admitted), "another image than most nodes: "+id)
			s.set(m, o)
		}
	}
}
