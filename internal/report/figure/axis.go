package figure

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tare-bench/tare/internal/text/unit"
)

// An axis maps values to positions.
type axis struct {
	from, to float64 // values at its ends, from < to
	lo, hi   float64 // positions of them
	log      bool
	ticks    []tick
}

// A tick is a mark on an axis.
type tick struct {
	at   float64
	text string
}

// at is the position of a value, at an end of the axis if it lies beyond.
func (a *axis) at(v float64) float64 {
	from, to := a.from, a.to
	if a.log {
		from, to, v = math.Log(from), math.Log(to), math.Log(v)
	}
	if math.IsNaN(v) {
		return a.lo
	}
	share := min(max((v-from)/(to-from), 0), 1)
	return a.lo + share*(a.hi-a.lo)
}

// known are the numbers that there are.
func known(all ...*float64) (numbers []float64) {
	for _, v := range all {
		if v != nil {
			numbers = append(numbers, *v)
		}
	}
	return numbers
}

// extent is the smallest and the largest number; ok is false without any.
func extent(values []float64) (low, high float64, ok bool) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			low, high = min(low, v), max(high, v)
		}
	}
	return low, high, low <= high
}

// wideRange is from which ratio of the largest to the smallest value on an axis is logarithmic.
const wideRange = 20

// valueAxis suits values of a unit. It is logarithmic where they are far apart.
func valueAxis(values []float64, u string, lo, hi float64, wanted int) axis {
	low, high, ok := extent(values)
	if !ok {
		low, high = 0, 1
	}
	a := axis{lo: lo, hi: hi, log: low > 0 && high/low > wideRange}
	if a.log {
		a.from, a.to = low/1.2, high*1.2
		steps := logTicks
		if binary(u) {
			steps = binaryLogTicks
		}
		for _, v := range steps(a.from, a.to, wanted) {
			a.ticks = append(a.ticks, tick{v, unit.Format(v, u)})
		}
		return a
	}
	margin := (high - low) * 0.05
	if margin == 0 {
		margin = max(math.Abs(high)*0.05, 1e-12)
	}
	a.from, a.to = low-margin, high+margin
	all := linearTicks(a.from, a.to, wanted)
	if binary(u) {
		all = binaryTicks(a.from, a.to, wanted)
	}
	scale := unit.Scale(u, append([]float64{high}, all...)...)
	for _, v := range all {
		a.ticks = append(a.ticks, tick{v, scale.Format(v)})
	}
	return a
}

// linearTicks are about as many round numbers as wanted.
func linearTicks(from, to float64, wanted int) (all []float64) {
	step := niceStep((to - from) / float64(max(wanted, 1)))
	for i := math.Ceil(from / step); i*step <= to+step*1e-9 && len(all) < 50; i++ {
		v := i * step
		if math.Abs(v) < step*1e-9 {
			v = 0
		}
		all = append(all, v)
	}
	return all
}

// binary reports whether a unit has prefixes that are powers of 1024.
func binary(u string) bool { return u == unit.Bytes || u == unit.BytesPerSecond }

// binaryTicks are round numbers of the unit that the larger end has with its prefix, such as MiB.
func binaryTicks(from, to float64, wanted int) []float64 {
	scale := 1.0
	for math.Abs(to) >= 1024*scale {
		scale *= 1024
	}
	all := linearTicks(from/scale, to/scale, wanted)
	for i := range all {
		all[i] *= scale
	}
	return all
}

// binaryLogTicks are powers of two, as far apart as there is room for.
func binaryLogTicks(from, to float64, wanted int) (all []float64) {
	low, high := int(math.Ceil(math.Log2(from))), int(math.Floor(math.Log2(to)))
	every := max(1, (high-low)/max(wanted, 1))
	for e := low; e <= high; e++ {
		if e%every == 0 {
			all = append(all, math.Pow(2, float64(e)))
		}
	}
	return all
}

// niceStep is 1, 2 or 5 times a power of ten, and not below least.
func niceStep(least float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(least)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= least*(1-1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// logTicks are powers of ten, with 2 and 5 between them where there is room.
func logTicks(from, to float64, wanted int) (all []float64) {
	decades := math.Log10(to / from)
	steps := []float64{1}
	switch {
	case decades*3 <= float64(wanted):
		steps = []float64{1, 2, 5}
	case decades*2 <= float64(wanted):
		steps = []float64{1, 3}
	}
	every := max(1, int(math.Ceil(decades/float64(max(wanted, 1)))))
	for e := int(math.Floor(math.Log10(from))); e <= int(math.Ceil(math.Log10(to))); e++ {
		if e%every != 0 {
			continue
		}
		for _, s := range steps {
			if v := s * math.Pow(10, float64(e)); v >= from && v <= to {
				all = append(all, v)
			}
		}
	}
	return all
}

// changeAxis suits ratios: in percent, or as factors where they are far from 1.
func changeAxis(values []float64, lo, hi float64) axis {
	low, high, ok := extent(values)
	switch {
	case !ok:
		low, high = 1, 1
	case low <= 0:
		low = min(high/2, 0.5)
	}
	spread := max(math.Log(high/low)*0.06, 0.002)
	a := axis{from: low * math.Exp(-spread), to: high * math.Exp(spread), lo: lo, hi: hi, log: true}
	if a.to <= 2 && a.from >= 0.5 {
		for _, v := range linearTicks(a.from-1, a.to-1, 5) {
			a.ticks = append(a.ticks, tick{1 + v, percent(v)})
		}
		return a
	}
	all := logTicks(a.from, a.to, 4)
	if len(all) < 2 {
		all = linearTicks(a.from, a.to, 3)
	}
	for _, v := range all {
		a.ticks = append(a.ticks, tick{v, "×" + strconv.FormatFloat(v, 'g', 4, 64)})
	}
	return a
}

// percent writes a change with its sign.
func percent(v float64) string {
	switch {
	case v > 0:
		return "+" + unit.FormatPercent(v)
	case v < 0:
		return "−" + unit.FormatPercent(-v)
	default:
		return "0 %"
	}
}

// horizontal draws an axis below a panel, and its grid.
func (c *canvas) horizontal(a *axis, top, bottom float64) {
	var grid strings.Builder
	for _, t := range a.ticks {
		grid.WriteString("M" + px(a.at(t.at)) + " " + px(top) + "V" + px(bottom))
	}
	c.grid(grid.String())
	ended := math.Inf(-1) // where the last text did
	for _, t := range a.ticks {
		x, long := a.at(t.at), textWidth(t.text)
		where, start := middle, x-long/2
		switch {
		case x < a.lo+18:
			where, start = left, x
		case x > a.hi-18:
			where, start = right, x-long
		}
		if start < ended+4 {
			continue // its line in the grid says enough
		}
		c.text(x, bottom+12, where, muted, small, t.text)
		ended = start + long
	}
	c.line(a.lo, bottom, a.hi, bottom, frame, 1)
}

// textWidth is about how wide a small text is, in a wide one of the fonts that browsers take.
func textWidth(s string) float64 {
	width := 0.0
	for _, r := range s {
		switch r {
		case '%':
			width += 0.95
		case '+', '−', '×':
			width += 0.84
		case ' ', '.', ',':
			width += 0.32
		default:
			width += 0.62
		}
	}
	return width * small
}

// normalWidth is about how wide a text of normal size is.
func normalWidth(s string) float64 { return textWidth(s) * normal / small }

// shortenTo shortens a text of normal size to a width, and leaves a few letters of it in any case.
func shortenTo(s string, room float64) string {
	const least = 8
	n := utf8.RuneCountInString(s)
	for n > least && normalWidth(shorten(s, n)) > room {
		n--
	}
	return shorten(s, n)
}

// vertical draws an axis at the left of a panel, and its grid.
func (c *canvas) vertical(a *axis, from, to float64) {
	var grid strings.Builder
	for _, t := range a.ticks {
		grid.WriteString("M" + px(from) + " " + px(a.at(t.at)) + "H" + px(to))
	}
	c.grid(grid.String())
	for _, t := range a.ticks {
		y := a.at(t.at)
		c.text(from-4, y+3.5, right, muted, small, t.text)
	}
	c.line(from, a.lo, from, a.hi, frame, 1)
}
