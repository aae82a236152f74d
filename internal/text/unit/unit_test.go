package unit_test

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/text/unit"
)

func TestFormat(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, tt := range []struct {
		value float64
		unit  string
		want  string
	}{
		{1.0912e-3, "s", "1.09 ms"},
		{0.0194, "s", "19.4 ms"},
		{0.19, "s", "190 ms"},
		{1.2e-6, "s", "1.20 µs"},
		{450e-9, "s", "450 ns"},
		{0.4e-9, "s", "0.400 ns"},
		{1, "s", "1 s"},
		{1.5, "s", "1.50 s"},
		{3600, "s", "3,600 s"},
		{999.4e-6, "s", "999 µs"},
		{999.6e-6, "s", "1.00 ms"}, // rounding carries into the next prefix
		{9.996e-3, "s", "10.0 ms"}, // and into the next digit
		{99.96e-3, "s", "100 ms"},
		{-0.0194, "s", "−19.4 ms"},
		{0, "s", "0 s"},
		{math.Copysign(0, -1), "s", "0 s"},
		{nan, "s", "–"},
		{inf, "s", "∞ s"},
		{-inf, "s", "−∞ s"},
		{5e-324, "s", "4.94e−315 ns"},
		{math.MaxFloat64, "s", "1.80e+308 s"},

		{12 << 20, "B", "12 MiB"},
		{12.04 * (1 << 20), "B", "12.0 MiB"},
		{512, "B", "512 B"},
		{1023, "B", "1,023 B"},
		{1024, "B", "1 KiB"},
		{1023.7 * 1024, "B", "1.00 MiB"},
		{1536, "B", "1.50 KiB"},
		{3 << 50, "B", "3,072 TiB"},
		{12.04 * (1 << 20), "B/s", "12.0 MiB/s"},

		{3950, "1", "3,950"},
		{3, "1", "3"},
		{2.5, "1", "2.50"},
		{0.333333, "1", "0.333"},
		{999999, "1", "999,999"},
		{999999.7, "1", "1.00 M"},
		{45.2e6, "1", "45.2 M"},
		{1e30, "1", "1.00e+18 T"},
		{1e-5, "1", "1.00e−05"},

		{45200, "1/s", "45.2 k/s"},
		{950, "1/s", "950 /s"},
		{0.5, "1/s", "0.500 /s"},
		{1.5e6, "1/s", "1.50 M/s"},

		{1234.5, "pages", "1,234 pages"},
		{0.25, "", "0.250"},
	} {
		if got := unit.Format(tt.value, tt.unit); got != tt.want {
			t.Errorf("Format(%v, %q) = %q, want %q", tt.value, tt.unit, got, tt.want)
		}
	}
}

func TestScale(t *testing.T) {
	for _, tt := range []struct {
		name   string
		unit   string
		values []float64
		want   string
	}{
		{"one prefix", "s", []float64{1.09e-3, 19.4e-3, 0.19}, "1.09 ms|19.4 ms|190 ms"},
		{"just under a prefix", "s", []float64{0.8e-3, 0.19}, "0.800 ms|190 ms"},
		{"milliseconds to seconds", "s", []float64{1.09e-3, 1.2}, "1.09 ms|1,200 ms"},
		{"far apart", "s", []float64{50e-6, 0.19}, "0.0500 ms|190 ms"},
		{"zero has no say", "s", []float64{0, 19.4e-3}, "0 ms|19.4 ms"},
		{"NaN and infinity have no say", "s", []float64{math.NaN(), 19.4e-3, math.Inf(1)}, "–|19.4 ms|∞ ms"},
		{"negative by magnitude", "s", []float64{-19.4e-3, 1e-3}, "−19.4 ms|1 ms"},
		{"nothing at all", "s", nil, ""},
		{"only zero", "B", []float64{0}, "0 B"},
		{"smallest and largest", "s", []float64{5e-324, math.MaxFloat64}, "4.94e−324 s|1.80e+308 s"},
		{"bytes", "B", []float64{1 << 20, 1 << 30}, "1 MiB|1,024 MiB"},
		{"counts", "1", []float64{3, 3950}, "3|3,950"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := unit.Scale(tt.unit, tt.values...)
			var got []string
			for _, v := range tt.values {
				got = append(got, s.Format(v))
			}
			if got := strings.Join(got, "|"); got != tt.want {
				t.Errorf("Scale(%q, %v) = %q, want %q", tt.unit, tt.values, got, tt.want)
			}
		})
	}
}

func TestNumberHasNoUnit(t *testing.T) {
	s := unit.Scale("s", 0.19)
	if got, want := s.Number(0.0194)+" in "+s.Suffix, "19.4 in ms"; got != want {
		t.Errorf("Number = %q, want %q", got, want)
	}
	if got, want := (unit.Scaler{}).Format(1234), "1,234"; got != want {
		t.Errorf("zero Scaler = %q, want %q", got, want)
	}
}

func TestFormatRatio(t *testing.T) {
	for _, tt := range []struct {
		ratio float64
		want  string
	}{
		{6.53, "×6.53"},
		{174.2, "×174"},
		{1234.4, "×1,234"},
		{2, "×2.00"},
		{12, "×12.0"},
		{0.153, "×0.153"},
		{0.5, "×0.500"},
		{1.012, "+1.2 %"},
		{0.996, "−0.4 %"},
		{1.0004, "+0.04 %"},
		{1.00094, "+0.09 %"},
		{1.00096, "+0.1 %"},
		{1.00001, "0.0 %"},
		{1, "0.0 %"},
		{1.2499, "+25.0 %"},
		{1.25, "×1.25"},
		{0.75, "×0.750"},
		{0.7501, "−25.0 %"},
		{0, "×0"},
		{-1, "–"},
		{math.NaN(), "–"},
		{math.Inf(1), "×∞"},
		{math.Inf(-1), "–"},
		{5e-324, "×4.94e−324"},
	} {
		if got := unit.FormatRatio(tt.ratio); got != tt.want {
			t.Errorf("FormatRatio(%v) = %q, want %q", tt.ratio, got, tt.want)
		}
	}
}

func TestFormatRatios(t *testing.T) {
	for _, tt := range []struct {
		ratios []float64
		want   string
	}{
		{[]float64{1.2, 1.1, 1.3}, "+20.0 %|+10.0 %|+30.0 %"},
		{[]float64{1.3, 1.2, 1.4}, "×1.30|×1.20|×1.40"},
		{[]float64{1.1, 0.001, 21.5}, "+10.0 %|−99.9 %|+2,050 %"},
		{[]float64{1.1, 0, math.Inf(1)}, "+10.0 %|−100 %|+∞ %"},
		{[]float64{1.1, math.NaN(), math.NaN()}, "+10.0 %|–|–"},
	} {
		got := strings.Join(unit.FormatRatios(tt.ratios[0], tt.ratios[1:]...), "|")
		if got != tt.want {
			t.Errorf("FormatRatios(%v) = %q, want %q", tt.ratios, got, tt.want)
		}
	}
}

func TestFormatPercent(t *testing.T) {
	for _, tt := range []struct {
		share float64
		want  string
	}{
		{0.03, "3 %"},
		{0.07, "7 %"},
		{0.95, "95 %"},
		{0.0355, "3.55 %"},
		{0.12345, "12.3 %"},
		{0.1204, "12 %"},
		{1, "100 %"},
		{-0.015, "−1.5 %"},
		{0, "0 %"},
		{math.NaN(), "–"},
		{math.Inf(1), "∞ %"},
		{math.MaxFloat64, "1.80e+308 %"},
	} {
		if got := unit.FormatPercent(tt.share); got != tt.want {
			t.Errorf("FormatPercent(%v) = %q, want %q", tt.share, got, tt.want)
		}
	}
}

// FuzzFormat checks that what is read back is what was written, to the three
// digits that are shown, and that no character is wider than one column.
func FuzzFormat(f *testing.F) {
	for _, v := range []float64{0, 1, 0.9999, 999.5, 1e-9, -3.3e7, 5e-324, math.MaxFloat64, math.Inf(-1), math.NaN()} {
		f.Add(v, uint8(0))
		f.Add(v, uint8(1))
		f.Add(v, uint8(3))
	}
	units := []string{"s", "B", "1", "1/s", "B/s", "pages"}
	f.Fuzz(func(t *testing.T, v float64, n uint8) {
		u := units[int(n)%len(units)]
		got := unit.Format(v, u)
		for _, r := range got {
			if (r < ' ' || r > '~') && !strings.ContainsRune("µ×–−∞", r) {
				t.Fatalf("Format(%v, %q) = %q has the character %q", v, u, got, r)
			}
		}
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return
		}
		if back := read(t, got, u); math.Abs(back-v) > 0.005001*math.Abs(v) {
			t.Fatalf("Format(%v, %q) = %q, which reads as %v", v, u, got, back)
		}
	})
}

// read takes a formatted value apart again.
func read(t *testing.T, s, u string) float64 {
	t.Helper()
	factors := map[string]float64{
		"": 1, u: 1, "ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "M": 1e6, "G": 1e9, "T": 1e12,
		"/s": 1, "k/s": 1e3, "M/s": 1e6, "G/s": 1e9,
		"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
		"KiB/s": 1 << 10, "MiB/s": 1 << 20, "GiB/s": 1 << 30, "TiB/s": 1 << 40,
	}
	digits, suffix, _ := strings.Cut(s, " ")
	n, err := strconv.ParseFloat(strings.NewReplacer(",", "", "−", "-").Replace(digits), 64)
	factor, ok := factors[suffix]
	if !ok || err != nil && !math.IsInf(n, 0) {
		t.Fatalf("%q: %v, suffix %q", s, err, suffix)
	}
	if n *= factor; math.IsInf(n, 0) { // 1.797e308 is rounded up
		return math.Copysign(math.MaxFloat64, n)
	}
	return n
}
