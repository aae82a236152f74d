package gobench

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/text/plain"
)

// unitOf names a metric's values as the Go benchmark format does: what is
// counted, then its base unit.
func unitOf(m bench.Metric) string {
	name := part(m.Name)
	switch m.Unit {
	case "s":
		return name + "-sec/op"
	case "B":
		return name + "-B/op"
	case "1":
		return name + "/op"
	case "1/s":
		return name + "/s"
	case "B/s":
		return name + "-B/s"
	default:
		return name + "-" + part(m.Unit)
	}
}

// part makes one element of a name: spaces and slashes separate elements, so
// they are written as in a URL.
func part(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r == '/' || r == '%' || unicode.IsSpace(r) || plain.IsHidden(r) {
			for _, c := range []byte(string(r)) {
				fmt.Fprintf(&b, "%%%02X", c)
			}
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}
