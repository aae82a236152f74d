package unit

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// day is the longest unit of a duration.
const day = 24 * time.Hour

// FormatDuration writes how long something takes as people say it, with the
// two largest units: "850ms", "4.2s", "41s", "1m 41s", "2h 5m", "3d 4h".
// ParseDuration reads all of them.
func FormatDuration(d time.Duration) string {
	switch {
	case d == math.MinInt64:
		return FormatDuration(d + 1) // it has no positive counterpart
	case d < 0:
		return minus + FormatDuration(-d)
	case d < 999500*time.Microsecond: // what would be rounded to 1000ms is a second
		return strings.ReplaceAll(Format(d.Seconds(), Seconds), " ", "")
	case d.Round(100*time.Millisecond) < 10*time.Second:
		s := strconv.FormatFloat(d.Round(100*time.Millisecond).Seconds(), 'f', -1, 64)
		return s + "s"
	case d.Round(time.Second) < time.Hour:
		return formatTwoUnits(d.Round(time.Second), time.Minute, "m", time.Second, "s")
	case d.Round(time.Minute) < day:
		return formatTwoUnits(d.Round(time.Minute), time.Hour, "h", time.Minute, "m")
	default:
		return formatTwoUnits(d.Round(time.Hour), day, "d", time.Hour, "h")
	}
}

// formatTwoUnits writes d in two units, and leaves out the one that is zero.
func formatTwoUnits(d, large time.Duration, largeName string, small time.Duration, smallName string) string {
	var parts []string
	if n := d / large; n > 0 {
		parts = append(parts, strconv.FormatInt(int64(n), 10)+largeName)
	}
	if n := d % large / small; n > 0 {
		parts = append(parts, strconv.FormatInt(int64(n), 10)+smallName)
	}
	return strings.Join(parts, " ")
}

// ParseDuration reads a duration that is not negative: Go's notation ("90s",
// "1m30s", "250ms"), with spaces between the parts if wanted ("1m 30s"), and
// "d" for 24 hours in front ("2d 4h"). The error says what is wrong and what
// can be written.
func ParseDuration(s string) (time.Duration, error) {
	bad := func(what string) (time.Duration, error) {
		return 0, fmt.Errorf("duration %.40q %s; write it as 250ms, 90s, 1m30s or 2h", s, what)
	}
	text := strings.ReplaceAll(strings.TrimSpace(s), " ", "")
	switch {
	case text == "":
		return bad("is empty")
	case len(text) > 64:
		return bad("is too long")
	case text[0] == '-' || strings.HasPrefix(text, minus):
		return bad("is negative")
	case text != "0" && strings.Trim(text, "0123456789.") == "":
		return bad("has no unit")
	}
	var days time.Duration
	if number, rest, found := strings.Cut(text, "d"); found {
		n, err := strconv.ParseUint(number, 10, 63)
		if err != nil || n > uint64(math.MaxInt64/day) {
			return bad("is not understood")
		}
		days, text = time.Duration(n)*day, rest
	}
	if text == "" {
		return days, nil
	}
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return bad("is not understood") // its own words would only repeat the text
	case d < 0:
		return bad("is negative")
	case days > math.MaxInt64-d:
		return bad("is too long")
	}
	return days + d, nil
}
