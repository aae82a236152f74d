package figure

import (
	"cmp"
	"slices"
	"testing"
	"unicode/utf8"
)

// texts are the labels of an axis.
func texts(a axis) (all []string) {
	for _, t := range a.ticks {
		all = append(all, t.text)
	}
	return all
}

// TestTicks checks that axes have round numbers, of bytes in powers of two.
func TestTicks(t *testing.T) {
	for _, c := range []struct {
		name   string
		values []float64
		unit   string
		want   []string
	}{
		{"seconds", []float64{0.001, 0.004}, "s", []string{"1 ms", "2 ms", "3 ms", "4 ms"}},
		{"bytes", []float64{1.2 * (1 << 20), 10 << 20}, "B", []string{"5 MiB", "10 MiB"}},
		{"bytes far apart", []float64{1 << 20, 600 << 20}, "B", []string{"1 MiB", "4 MiB", "16 MiB", "64 MiB", "256 MiB"}},
		{"nothing", nil, "s", []string{"0 ms", "500 ms", "1,000 ms"}},
	} {
		if got := texts(valueAxis(c.values, c.unit, 0, 100, 4)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestNamesApart checks that names at the ends of lines do not cover one another, and keep their order.
func TestNamesApart(t *testing.T) {
	for _, ends := range [][]point{
		{{300, 100}, {300, 100}, {300, 101}}, {{300, 31}, {300, 30}, {300, 32}, {300, 200}}, {{300, 60}},
	} {
		order := make([]int, len(ends))
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(ends[a].y, ends[b].y) })
		at := apart(order, ends)
		for k := range at {
			if at[k] < topSpace || k > 0 && at[k]-at[k-1] < letter-0.5 {
				t.Errorf("%v are written at %v", ends, at)
			}
		}
	}
	if (names{"short", "a long name"}).beside() || !(names{"short", "shorter"}).beside() {
		t.Error("names are beside their lines, or are not, whatever their length")
	}
}

// A name leaves its line to what is said of it, and is never gone.
func TestShortenTo(t *testing.T) {
	const name = "cellxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
	for _, room := range []float64{340, 150, 100, 10} {
		got := shortenTo(name, room)
		if n := utf8.RuneCountInString(got); normalWidth(got) > room && n != 8 || n < 8 || room > 300 && got != name {
			t.Errorf("%v: %q, %v wide", room, got, normalWidth(got))
		}
	}
}
