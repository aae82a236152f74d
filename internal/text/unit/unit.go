// Package unit writes quantities for people and reads those that people write.
//
// Everywhere else a value is a float64 in a base unit: "s", "B", "1", "1/s" or
// "B/s". Prefixes exist only here, on the way to and from a person. Every
// character that this package writes is one terminal column wide.
package unit

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// The base units that have prefixes. Any other unit is written as it is.
const (
	Seconds        = "s"
	Bytes          = "B"
	Count          = "1"
	PerSecond      = "1/s"
	BytesPerSecond = "B/s"
)

// None is written for NaN, that is where there is no value.
const None = "–"

// minus is as wide as a plus sign, which a hyphen is not.
const minus = "−"

// A Scaler writes values of one unit with one prefix, so that the numbers of a
// column can be compared by eye. The zero Scaler writes counts.
type Scaler struct {
	// Suffix is what follows a number, such as "ms", "MiB/s" or "k/s"; empty
	// for plain counts.
	Suffix string

	divisor float64 // 0 means 1
}

// Scale chooses the prefix for a set of values: the one that suits the
// geometric middle between the smallest and the largest, so that neither has
// many zeros. What is zero or not finite has no say.
func Scale(unit string, values ...float64) Scaler {
	low, high := extent(values)
	// Two roots, because the product of two small values can vanish.
	middle := math.Sqrt(low) * math.Sqrt(high)
	steps := prefixes(unit)
	best := steps[0]
	for _, s := range steps[1:] {
		// By what is shown: 999.6 µs is written as 1.00 ms. And never so that
		// the largest value overflows.
		step := math.Round(s.divisor / best.divisor)
		if roundShown(middle/best.divisor) < step && high/best.divisor <= math.MaxFloat64 {
			break
		}
		best = s
	}
	return best
}

// extent returns the smallest and the largest magnitude among the finite
// values that are not zero, or the unit's own size where there are none.
func extent(values []float64) (low, high float64) {
	var sizes []float64
	for _, v := range values {
		if v = math.Abs(v); v > 0 && v <= math.MaxFloat64 {
			sizes = append(sizes, v)
		}
	}
	if len(sizes) == 0 {
		return 1, 1
	}
	return slices.Min(sizes), slices.Max(sizes)
}

// prefixes returns the scales of a unit, smallest first.
func prefixes(unit string) []Scaler {
	const ki, k = 1 << 10, 1e3
	switch unit {
	case Seconds:
		return []Scaler{{"ns", 1e-9}, {"µs", 1e-6}, {"ms", 1e-3}, {"s", 1}}
	case Bytes, BytesPerSecond:
		per := strings.TrimPrefix(unit, "B")
		return []Scaler{
			{"B" + per, 1},
			{"KiB" + per, ki},
			{"MiB" + per, ki * ki},
			{"GiB" + per, ki * ki * ki},
			{"TiB" + per, ki * ki * ki * ki},
		}
	case PerSecond:
		return []Scaler{{"/s", 1}, {"k/s", k}, {"M/s", k * k}, {"G/s", k * k * k}}
	case Count:
		// Thousands are written in full: 3,950 is read as easily as 3.95 k.
		return []Scaler{{"", 1}, {"M", k * k}, {"G", k * k * k}, {"T", k * k * k * k}}
	default:
		return []Scaler{{unit, 1}}
	}
}

// Format writes a value with its unit, such as "1.09 ms".
func (s Scaler) Format(value float64) string {
	n := s.Number(value)
	if s.Suffix == "" || n == None {
		return n
	}
	return n + " " + s.Suffix
}

// In returns a value in the scaler's own unit: 0.0012 s is 1.2 in ms.
func (s Scaler) In(value float64) float64 {
	if s.divisor == 0 {
		return value
	}
	return value / s.divisor
}

// Number writes a value without its unit, for columns that name the unit in
// their head: three significant digits, whole numbers in full.
func (s Scaler) Number(value float64) string { return number(s.In(value)) }

// Format writes one value with the prefix that suits it, such as "19.4 ms",
// "12.0 MiB", "45.2 k/s" or "3,950".
func Format(value float64, unit string) string {
	return Scale(unit, value).Format(value)
}

// FormatCount writes how many of a thing there are, such as "1 block" or
// "1,200 blocks".
func FormatCount(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return Format(float64(n), Count) + " " + thing + "s"
}

// number writes v with three significant digits, and digits before the point
// in full.
func number(v float64) string {
	switch size := math.Abs(v); {
	case math.IsNaN(v):
		return None
	case v < 0:
		return minus + number(size)
	case math.IsInf(v, 1):
		return "∞"
	case size == 0:
		return "0"
	case size >= 1e15 || size < 1e-4:
		// Beyond every prefix: more zeros than anybody counts.
		return strings.Replace(strconv.FormatFloat(v, 'e', 2, 64), "e-", "e"+minus, 1)
	default:
		return groupThousands(strconv.FormatFloat(v, 'f', decimals(v), 64))
	}
}

// decimals returns how many digits after the point make three significant
// ones. Small whole numbers have none: 3 processes, not 3.00.
func decimals(v float64) int {
	if v == math.Trunc(v) && v < 1000 {
		return 0
	}
	// The exponent after rounding, so that 9.996 becomes 10.0 and not 10.00.
	return max(0, 2-exponent(v))
}

// exponent returns the decimal exponent of v after rounding it to three
// significant digits.
func exponent(v float64) int {
	_, exp, _ := strings.Cut(strconv.FormatFloat(v, 'e', 2, 64), "e")
	n, err := strconv.Atoi(exp)
	if err != nil {
		return 0 // NaN and infinities have no exponent
	}
	return n
}

// roundShown returns v as it will be read: rounded to three significant digits, or
// to a whole number where that has more.
func roundShown(v float64) float64 {
	if exponent(v) >= 2 {
		return math.Round(v)
	}
	r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'e', 2, 64), 64)
	if err != nil {
		return v // out of range by rounding up the largest float64
	}
	return r
}

// groupThousands puts commas between thousands of a number without a sign.
func groupThousands(s string) string {
	whole, rest, point := strings.Cut(s, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if point {
		return whole + "." + rest
	}
	return whole
}
