package fleet

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/fleet"
	"github.com/tare-bench/tare/internal/fleet/odd"
	"github.com/tare-bench/tare/internal/fleet/pairs"
	"github.com/tare-bench/tare/internal/text/unit"
)

// words say what is known of a node in a metric.
func (f *Finding) words(m *Metric) string {
	switch f.Verdict {
	case odd.Slow, odd.Fast:
		return f.difference(m)
	case odd.Suspect:
		return f.difference(m) + ", to be confirmed"
	case odd.Unconfirmed:
		return f.difference(m) + ", not confirmed by the second pass"
	case odd.Unsteady:
		text := "unsteady"
		if f.Noise != nil {
			text += ": varies by " + percent(*f.Noise) + " from round to round"
		}
		return text
	case odd.Ordinary:
		return "ordinary (" + f.interval() + ")"
	case odd.Unclear:
		text := "unclear (" + f.interval() + ")"
		if f.Needs > 0 {
			text += fmt.Sprintf(", about %d rounds would tell", f.Needs)
		}
		return text
	default:
		return "not compared"
	}
}

// stands says why a node stands out in a metric, and what else is different about it.
func (f *Finding) stands(m *Metric, group string) string {
	text := f.Text + ": " + m.Title
	if f.Verdict == odd.Slow || f.Verdict == odd.Fast {
		text = f.Text + " than the others: " + m.Title
		if m.isSmall(group) {
			text = "differs from the others, " + f.Text + ": " + m.Title
		}
	}
	if len(f.Reasons) > 0 {
		text += "; " + strings.Join(f.Reasons, ", ")
	}
	return text
}

// difference is how far it is from the others, with a word that says which way: 36 % slower (24–54 %).
func (f *Finding) difference(m *Metric) string {
	if f.Ratio == nil || f.Low == nil || f.High == nil {
		return "differs"
	}
	return difference(Ratio{*f.Ratio, *f.Low, *f.High}, m.word(*f.Ratio > 1))
}

// difference is a ratio in words: 36 % slower (24–54 %), or 2.9–3.5× slower.
func difference(r Ratio, word string) string {
	if r.Ratio > 2 || r.Ratio < 0.5 {
		a, b := r.Low, r.High
		if r.Ratio < 1 {
			a, b = 1/b, 1/a
		}
		return fmt.Sprintf("%.3g–%.3g× %s", a, b, word)
	}
	a, b := math.Abs(r.Low-1), math.Abs(r.High-1)
	if (r.Low-1)*(r.High-1) < 0 { // it holds no difference
		return percent(math.Abs(r.Ratio-1)) + " " + word + " (" + r.interval() + ")"
	}
	low, high := percent(min(a, b)), percent(max(a, b))
	return percent(math.Abs(r.Ratio-1)) + " " + word + " (" + strings.TrimSuffix(low, " %") + "–" + high + ")"
}

// interval is the interval of the ratio as a change: −1.2 to +3.4 %.
func (f *Finding) interval() string {
	if f.Low == nil || f.High == nil {
		return "no interval"
	}
	r := Ratio{Low: *f.Low, High: *f.High}
	return r.interval()
}

// word is the one for more or less of a metric.
func (m *Metric) word(more bool) string {
	switch {
	case m.Unit == unit.Seconds && more:
		return "slower"
	case m.Unit == unit.Seconds:
		return "faster"
	case m.Better == bench.Higher && (m.Unit == unit.PerSecond || m.Unit == unit.BytesPerSecond) && more:
		return "faster"
	case m.Better == bench.Higher && (m.Unit == unit.PerSecond || m.Unit == unit.BytesPerSecond):
		return "slower"
	case more:
		return "more"
	default:
		return "less"
	}
}

// percent is a share with two significant digits.
func percent(share float64) string {
	switch p := share * 100; {
	case math.Abs(p) < 9.95:
		return fmt.Sprintf("%.1f %%", p)
	default:
		return fmt.Sprintf("%.0f %%", p)
	}
}

// signed is a change as a percentage with its sign.
func signed(change float64) string {
	text := percent(math.Abs(change))
	if text == percent(0) {
		return text
	}
	if change < 0 {
		return "−" + text
	}
	return "+" + text
}

// stands reports whether a node or link is named.
func stands(v pairs.Verdict) bool { return v == pairs.Slow || v == pairs.Fast }

// title names what was measured, and over which network.
func (p *Path) title() string {
	what := "Round trips"
	if p.Bulk {
		what = "Throughput"
	}
	return what + " between nodes, " + p.Network + " network"
}

// measured is a median: a time or, if there is one, a rate.
func measured(seconds, rate float64) string {
	if rate > 0 {
		return unit.Format(rate, unit.BytesPerSecond)
	}
	return unit.Format(seconds, unit.Seconds)
}

// one is one thing that was measured.
func (p *Path) one() string {
	if p.Bulk {
		return "transfer"
	}
	return "round trip"
}

// stands says why a node stands out.
func (p *Path) stands(n *PathNode) string {
	return p.far(n.Ratio, n.Verdict) + " on all its " + p.one() + "s over the " + p.Network + " network" + n.or()
}

// node is what is known of a node.
func (p *Path) node(n *PathNode) string {
	return p.far(n.Ratio, n.Verdict) + " on all its " + p.one() + "s" + n.or()
}

// way is the verdict that a node would have, if it had one.
func (p *Path) way(n *PathNode) pairs.Verdict {
	if (n.Ratio.Ratio > 1) != p.Bulk {
		return pairs.Slow
	}
	return pairs.Fast
}

// far is how far a node or link is from the others: with a word that says which way if it is named.
func (p *Path) far(r Ratio, v pairs.Verdict) string {
	switch v {
	case pairs.Slow:
		return difference(r, "slower")
	case pairs.Fast:
		return difference(r, "faster")
	}
	return r.text()
}

// or is what would explain the same.
func (n *PathNode) or() string {
	if len(n.OrLink) == 2 {
		return "; or only the link between " + n.OrLink[0] + " and " + n.OrLink[1] + " differs, the other way"
	}
	return ""
}

// link is what is known of a link.
func (p *Path) link(l *PathLink) string {
	text := measured(l.Seconds, l.Rate) + ", " + p.far(l.Ratio, l.Verdict) + " beside what both ends explain"
	if l.OrNode != "" {
		text += "; or " + l.OrNode + " differs, the other way"
	}
	return text
}

// none says that a node or link has nothing in some rounds.
func (p *Path) none(rounds, of int, reason string) string {
	return fmt.Sprintf("no %s in %d of %s: %s", p.one(), rounds, unit.FormatCount(of, "round"), reason)
}

// summary is what is known of all links together.
func (p *Path) summary() string {
	if len(p.Links) == 0 {
		return "nothing could be measured" + p.isOpen()
	}
	text := "median " + measured(p.Center, p.Rate)
	if p.Cost != nil {
		text += "; beside the hosts' own network " + p.Cost.text()
	}
	if p.Zone != nil {
		text += "; across zones " + p.Zone.text()
	}
	return text
}

// isOpen asks for the reason why none of those that tried have reached another.
func (p *Path) isOpen() string {
	if len(p.Silent)+len(p.Losses) == 0 {
		return ""
	}
	protocol, between := "UDP", "pods"
	if p.Bulk {
		protocol = "TCP"
	}
	if p.Network == pairs.Host {
		between = "nodes"
	}
	return fmt.Sprintf("; is %s port %d open between %s?", protocol, fleet.PeerPort, between)
}

// text is a ratio and its interval, as changes.
func (r *Ratio) text() string {
	return signed(r.Ratio-1) + " (" + r.interval() + ")"
}

// interval is that of a ratio as a change: −1.2 to +3.4 %.
func (r *Ratio) interval() string {
	return strings.TrimSuffix(signed(r.Low-1), " %") + " to " + signed(r.High-1)
}

func aheadOrBehind(seconds float64) string {
	d := unit.FormatDuration(time.Duration(math.Abs(seconds) * float64(time.Second)))
	if seconds > 0 {
		return d + " ahead of"
	}
	return d + " behind"
}

// few names some of many nodes.
func few(names []string) string {
	const most = 4
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:most-1], ", ") + fmt.Sprintf(" and %d others", len(names)-most+1)
}
