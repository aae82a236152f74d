package report

import (
	"math"
	"strconv"
	"strings"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/text/unit"
)

// A Finding is what a run knows of one cell and metric, in a few words. Only a finding of
// kind Differs claims a difference: the test that allows for all comparisons rejects
// chance. All the others are bounds from the plain 95 % interval, or say why there is none.
type Finding struct {
	Kind FindingKind `json:"kind"`
	Text string      `json:"text"`

	tone Tone
}

// A FindingKind says what sort of statement a Finding is.
type FindingKind string

// The kinds of findings.
const (
	IsBaseline  FindingKind = "baseline"      // its text is the value that the others are compared with
	IsSame      FindingKind = "same"          // any difference is too small to be worth knowing
	Differs     FindingKind = "differs"       // slower, faster, more or less
	Unconfirmed FindingKind = "not-confirmed" // the interval excludes no difference, the test does not
	AtMost      FindingKind = "at-most"       // no difference is possible, and no worse one than said
	Unknown     FindingKind = "unknown"       // the interval is too wide, or there is none
	Depends     FindingKind = "depends"       // of all conditions together: more in some, less in others
	NotThere    FindingKind = "not-measured"  // failed, not supported, or without a value
)

const (
	// large is from which factor on a difference is told in the metric's unit first.
	large = 2.0
	// wide is the worst bound that says something.
	wide = 0.5
)

// find gives each row its finding. What has ended can only be extended.
func (d *Document) find(ended bool) {
	for i := range d.Metrics {
		m := &d.Metrics[i]
		in := m.scale()
		for _, c := range m.tables() {
			for j := range c.Rows {
				r := &c.Rows[j]
				f := m.finding(c.baseRow(), r, in)
				if len(c.Rows) == 1 && f.Kind == IsBaseline { // nothing is compared with it
					f.Text += r.interval(in)
				}
				if r.Effect != nil && r.Effect.Interrupted { // the baseline's value beside it is that of turns
					f.Text = "uninterrupted: " + f.Text
				}
				if m.Summary != nil && c.Condition == "" && m.turns(r.Cell) { // the conditions have their findings
					f = Finding{Depends, "varies by condition", Uncertain}
				}
				if r.Finding = &f; r.Effect == nil {
					continue
				}
				if r.Effect.needed = r.Effect.Blocks; ended {
					r.Effect.needed = r.Effect.Extended
				}
			}
		}
	}
}

// turns reports whether a cell is found to have more than the baseline under one condition and less under another: one
// number for both would hide that.
func (m *Metric) turns(cell string) bool {
	more, less := false, false
	for _, c := range m.Conditions {
		for _, r := range c.Rows {
			if r.Cell != cell || r.Finding == nil || r.Finding.Kind != Differs {
				continue
			}
			none := 1.0
			if r.Effect.Scale == bench.Difference {
				none = 0
			}
			more, less = more || *r.Effect.Estimate > none, less || *r.Effect.Estimate < none
		}
	}
	return more && less
}

// interval is the interval of the median behind it; empty where there is none.
func (r *Row) interval(in scale) string {
	if r.Median == nil || r.Low == nil || r.High == nil {
		return ""
	}
	s := in.of(*r.Median)
	return " (" + s.Number(*r.Low) + "–" + s.Number(*r.High) + ")"
}

// finding says what is known of a row.
func (m *Metric) finding(base, r *Row, in scale) Finding {
	switch e := r.Effect; {
	case r.Unsupported && r.N == 0:
		return Finding{NotThere, "not supported", Plain}
	case e == nil && r.N == 0:
		return Finding{NotThere, notComparedReason(nil, r), Uncertain}
	case e == nil:
		return Finding{IsBaseline, in.text(r.Median), Plain}
	case e.Estimate == nil:
		return Finding{NotThere, notComparedReason(base, r), Uncertain}
	case e.Low == nil || e.High == nil:
		return Finding{Unknown, effectText(e, in)[0] + " (" + unit.FormatCount(e.Pairs, "block") + ")", Uncertain}
	case analysis.Verdict(e.Verdict) == analysis.Unreliable:
		return Finding{Unknown, "unreliable: " + e.interval(in), Uncertain}
	case e.Scale == bench.Difference:
		return m.amount(e, in)
	default:
		return m.ratio(e, in)
	}
}

// words are those for less and for more of the metric.
func (m *Metric) words() (less, more string) {
	switch {
	case m.Unit == unit.Seconds:
		return "faster", "slower"
	case m.Better == bench.Higher && (m.Unit == unit.PerSecond || m.Unit == unit.BytesPerSecond):
		return "slower", "faster"
	default:
		return "less", "more"
	}
}

// word is the one for a side of no difference, and how it is meant.
func (m *Metric) word(more bool) (string, Tone) {
	less, word := m.words()
	if !more {
		word = less
	}
	switch {
	case m.Better == bench.Neither:
		return word, Plain
	case more == (m.Better == bench.Higher):
		return word, Good
	default:
		return word, Bad
	}
}

// ratio words a comparison of ratios that has an interval.
func (m *Metric) ratio(e *Effect, in scale) Finding {
	low, high := *e.Low, *e.High
	switch analysis.Verdict(e.Verdict) {
	case analysis.Same:
		return Finding{IsSame, "same (±" + bound(max(high-1, 1-low)) + ")", Plain}
	case analysis.Worse, analysis.Better, analysis.Different:
		return m.differs(e, in)
	}
	if low > 1 || high < 1 {
		return Finding{Unconfirmed, e.interval(in) + ", not confirmed", Uncertain}
	}
	// An interval that just holds no difference ends there by luck: no bound is said finer than this.
	const finest = 0.01
	return m.limited(max(high-1, finest), max(1-low, finest), wide, bound)
}

// interval writes an interval as it is, which claims nothing: what is large as in a difference.
func (e *Effect) interval(in scale) string {
	switch {
	case e.Scale == bench.Difference:
		s := in.difference(*e.Low, *e.High)
		return withSign(s.Number(*e.Low)) + " to " + withSign(s.Format(*e.High))
	case isLarge(e):
		return e.withShift(factors(*e.Low, *e.High), in)
	default:
		return signedRange(*e.Low-1, *e.High-1)
	}
}

func isLarge(e *Effect) bool { return *e.Estimate > large || *e.Estimate < 1/large }

// withShift puts the difference in the metric's unit before a factor. The median difference of skewed values can
// contradict their median ratio; then it is left out.
func (e *Effect) withShift(factor string, in scale) string {
	if !e.hasShift() {
		return factor
	}
	return withSign(in.difference(e.Shift.Estimate).Format(e.Shift.Estimate)) + " (" + factor + ")"
}

func (e *Effect) hasShift() bool {
	return e.Shift != nil && (e.Shift.Estimate > 0) == (*e.Estimate > 1)
}

// limited words an interval that holds no difference: by how much there may be more of the
// metric, and by how much less. Beyond most, the bound says nothing.
func (m *Metric) limited(more, less, most float64, text func(float64) string) Finding {
	bad := max(more, less)
	word := ""
	switch m.Better {
	case bench.Lower:
		bad = more
		word, _ = m.word(true)
	case bench.Higher:
		bad = less
		word, _ = m.word(false)
	}
	switch {
	case bad > most:
		return Finding{Unknown, "unknown (±" + text(max(more, less)) + ")", Uncertain}
	case word == "":
		return Finding{AtMost, "within ±" + text(bad), Plain}
	default:
		return Finding{AtMost, "at most " + text(bad) + " " + word, Plain}
	}
}

// differs words a difference that is confirmed: in percent or, where it is large, in the
// metric's unit and as a factor.
func (m *Metric) differs(e *Effect, in scale) Finding {
	word, tone := m.word(*e.Estimate > 1)
	if !isLarge(e) {
		a, b := math.Abs(*e.Low-1), math.Abs(*e.High-1)
		return Finding{Differs, share(math.Abs(*e.Estimate-1)) + " " + word + " (" + shares(min(a, b), max(a, b)) + ")", tone}
	}
	low, high := *e.Low, *e.High
	if *e.Estimate < 1 {
		low, high = 1/high, 1/low
	}
	text := factors(low, high)
	if m.Unit != unit.Seconds || *e.Estimate < 1 || !e.hasShift() { // +20 ms is slower, without a word
		text += " " + word
	}
	return Finding{Differs, e.withShift(text, in), tone}
}

// amount words a comparison of values that can be zero, in the metric's unit.
func (m *Metric) amount(e *Effect, in scale) Finding {
	low, high := *e.Low, *e.High
	format := func(v float64) string { return in.difference(v).Format(v) }
	switch analysis.Verdict(e.Verdict) {
	case analysis.Same:
		return Finding{IsSame, "same (±" + format(max(high, -low)) + ")", Plain}
	case analysis.Worse, analysis.Better, analysis.Different:
		word, tone := m.word(*e.Estimate > 0)
		s, a, b := in.difference(*e.Estimate, low, high), math.Abs(low), math.Abs(high)
		return Finding{
			Differs, s.Format(math.Abs(*e.Estimate)) + " " + word + " (" + s.Number(min(a, b)) + "–" + s.Number(max(a, b)) +
				")", tone,
		}
	}
	if low > 0 || high < 0 {
		return Finding{Unconfirmed, e.interval(in) + ", not confirmed", Uncertain}
	}
	return m.limited(max(high, 0), max(-low, 0), math.Inf(1), format)
}

// bound writes a share rounded up, so that a bound stays one: two digits.
func bound(v float64) string {
	const least = 0.0001
	return share(outward(max(v, least), up))
}

// outward leaves two digits of a share, whole percents from 10 % on.
func outward(v float64, round func(float64) float64) float64 {
	if v <= 0 {
		return 0
	}
	scale := math.Pow(10, min(1-math.Floor(math.Log10(v)), 4))
	return round(v*scale) / scale
}

// share writes a share in percent with two digits.
func share(v float64) string { return unit.FormatPercent(roundTo(v)) }

// shares writes a range of shares, its ends rounded outward.
func shares(low, high float64) string {
	digits := percentDigits(high)
	return rangeEnd(low, digits, down) + "–" + rangeEnd(high, digits, up) + " %"
}

// signedRange writes a range of changes, such as "+2 to +24 %".
func signedRange(low, high float64) string {
	digits := percentDigits(max(math.Abs(low), math.Abs(high)))
	write := func(v float64, round func(float64) float64) string {
		text := rangeEnd(v, digits, round)
		if v < 0 {
			return "−" + strings.TrimPrefix(text, "-")
		}
		return "+" + text
	}
	return write(low, down) + " to " + write(high, up) + " %"
}

// percentDigits is how many digits a range of shares has after the point: whole percents from 10 % on.
func percentDigits(largest float64) int {
	if largest < 0.1 {
		return 1
	}
	return 0
}

// rangeEnd writes a share in percent. An end that is not 0 gets the digits that it takes not to be written
// as 0, because a range of 0 to 13 % would hold no difference. Below a ten-thousandth of a percent it does.
func rangeEnd(v float64, digits int, round func(float64) float64) string {
	for more := digits; more <= 4; more++ {
		scale := math.Pow10(more)
		if end := round(v*100*scale) / scale; end != 0 {
			return percent(end, more)
		}
	}
	return percent(0, digits)
}

// up and down round to whole numbers; what is one but for the last bits stays.
func up(v float64) float64   { return math.Ceil(v - 1e-9) }
func down(v float64) float64 { return math.Floor(v + 1e-9) }

func percent(v float64, digits int) string { return strconv.FormatFloat(v, 'f', digits, 64) }

// factors writes a range of factors, such as "500–850×".
func factors(low, high float64) string {
	return factor(low, down) + "–" + factor(high, up) + "×"
}

// factor leaves two digits of a factor.
func factor(v float64, round func(float64) float64) string {
	if v <= 0 {
		return "0"
	}
	digits := 1 - int(math.Floor(math.Log10(v)))
	scale := math.Pow(10, float64(digits))
	v = round(v*scale) / scale
	return strconv.FormatFloat(v, 'f', max(digits, 0), 64)
}
