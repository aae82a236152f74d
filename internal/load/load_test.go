package load_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/load"
)

// What loads print is read as it was, and nothing else is.
func TestParse(t *testing.T) {
	r := load.NewReport("cpu")
	r.Values["cpu.single"], r.Facts["threads"] = 1234.5, "2"
	line, err := r.Line()
	if err != nil {
		t.Fatal(err)
	}
	got, err := load.Parse(append(line, line...))
	if diff := cmp.Diff([]*load.Report{r, r}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for range load.MaxSeries + 1 {
		r.AddToSeries("rate", 1234567)
	}
	if got := r.Series["rate"]; len(got) != load.MaxSeries || got[0] != 1234600 {
		t.Errorf("a series has %d values, the first is %v", len(got), got[0])
	}
	r.Series["rate"] = append(r.Series["rate"], 1)
	long, err := r.Line()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"a long series":    string(long),
		"another program":  "hello\n",
		"another version":  "tare-load v2 {}\n",
		"cut off":          string(line[:len(line)-1]),
		"an unknown field": "tare-load v1 {\"more\":1}\n",
		"text behind it":   "tare-load v1 {} more\n",
		"two in one line":  "tare-load v1 {}{}\n",
		"no number":        "tare-load v1 {\"values\":{\"a\":1e999}}\n",
		"no distribution":  "tare-load v1 {\"distributions\":{\"a\":\"?\"}}\n",
		"good, then bad":   string(line) + "hello\n",
	} {
		if got, err := load.Parse([]byte(text)); !errors.Is(err, load.ErrReport) || got != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}
