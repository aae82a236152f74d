package report

import (
	"math"
	"strings"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/text/unit"
)

// subtitle says what holds for a whole table.
func subtitle(m *Metric) string {
	var parts []string
	switch m.Better {
	case bench.Lower:
		parts = append(parts, "less is better")
	case bench.Higher:
		parts = append(parts, "more is better")
	}
	if m.Smallest > 0 {
		parts = append(parts, "margin ±"+unit.FormatPercent(m.Smallest))
	}
	if len(m.Conditions) == 1 {
		parts = append(parts, variationText(m, &m.Conditions[0])...)
	}
	return strings.Join(parts, " · ")
}

// variationText says how much values vary without a real difference: the noise and, if it is
// known, how far the blocks are apart.
func variationText(m *Metric, c *Condition) []string {
	var parts []string
	if s := noise(m, c); s != "" {
		parts = append(parts, s)
	}
	switch {
	case c.Spread == nil:
	case m.Scale == bench.Difference:
		parts = append(parts, "blocks ±"+m.difference(*c.Spread))
	default:
		parts = append(parts, "blocks ±"+unit.FormatPercent(roundShare(*c.Spread)))
	}
	return parts
}

// ControlDiffers says by how much the control differs from the baseline, which is the same thing; empty if it does not.
func (c *Condition) ControlDiffers(m *Metric) string {
	if n := c.Noise; n != nil && n.Verdict == string(analysis.Different) && n.Estimate != nil {
		return "control differs by " + effectText(n, m.scale())[0]
	}
	return ""
}

// noise says how precisely the machine can compare the baseline with itself.
func noise(m *Metric, c *Condition) string {
	n, differs := c.Noise, c.ControlDiffers(m)
	switch {
	case n == nil:
		return ""
	case differs != "":
		return differs
	case (n.Low == nil || n.High == nil) && m.comparisons() == 0: // and nothing that it could hide
		return ""
	case n.Low == nil || n.High == nil:
		return "noise unknown"
	case n.Scale == bench.Difference:
		return "noise ±" + m.difference((*n.High-*n.Low)/2)
	default:
		return "noise ±" + unit.FormatPercent(roundShare(math.Sqrt(*n.High / *n.Low)-1))
	}
}

// difference writes a difference of the metric's values.
func (m *Metric) difference(v float64) string { return m.scale().difference(v).Format(v) }

// roundShare leaves two significant digits of a share, and none below a thousandth of a
// percent.
func roundShare(v float64) float64 {
	if v < 1e-5 {
		return 0
	}
	return roundTo(v)
}

// roundTo leaves two significant digits of a share.
func roundTo(v float64) float64 {
	if v <= 0 {
		return v
	}
	scale := math.Pow(10, 1-math.Floor(math.Log10(v)))
	return math.Round(v*scale) / scale
}
