package recording

import (
	"slices"
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
)

// whole are columns of two events in which nothing is wrong.
func whole() *columns {
	return &columns{
		Processes: []Process{{ID: 1}}, Texts: []string{"", "read"}, Stacks: [][]int{{1}},
		After: []int64{0, 5}, Kind: []Kind{Fork, Call}, Thread: []int{1, 1}, Process: []int{1, 1}, Other: []int{2, 0},
		OtherProcess: []int{2, 0}, Preempted: []int{0, 0}, Stack: []int{-1, 0}, Took: []int64{0, 3}, Text: []int{0, 1},
	}
}

func TestHostileColumnsAreRefused(t *testing.T) {
	if err := whole().check(); err != nil {
		t.Fatal(err)
	}
	for want, spoil := range map[string]func(*columns){
		"values of something else": func(c *columns) { c.Kind = c.Kind[:1] },
		"without a name":           func(c *columns) { c.Stacks[0][0] = 2 },
		"a text that there is not": func(c *columns) { c.Text[0] = -1 },
		"a stack that there is":    func(c *columns) { c.Stack[1] = 1 },
		"no valid number":          func(c *columns) { c.Other[0] = -1 },
		"events were lost":         func(c *columns) { c.Lost = -1 },
		"have no stack":            func(c *columns) { c.NoStack = -1 },
		"not in the trial":         func(c *columns) { c.First = 1 << 60 },
		"at no valid time":         func(c *columns) { c.After[1] = -1 },
		"of kind 9":                func(c *columns) { c.Kind[0] = 9 },
		"65537 processes":          func(c *columns) { c.Processes = make([]Process, 65537) },
		"524289 stacks":            func(c *columns) { c.Stacks = make([][]int, 524289) },
		"a stack of 65 functions":  func(c *columns) { c.Stacks[0] = make([]int, 65) },
		"65537 texts":              func(c *columns) { c.Texts = make([]string, 65537) },
		"a text of 4097 bytes":     func(c *columns) { c.Texts[1] = strings.Repeat("x", 4097) },
	} {
		c := whole()
		spoil(c)
		if err := c.check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	c := whole()
	c.Took[1] = -1
	if c.check() == nil {
		t.Error("a call that ended before it began was taken")
	}
}

// What becomes large in memory is refused before it is read, however small it is while it is compressed.
func TestHostileTextIsRefused(t *testing.T) {
	for want, c := range map[string]*columns{
		"more than 16777216 bytes":     {Took: make([]int64, 9<<20)},
		"too many processes or stacks": {Processes: make([]Process, 150_000)},
		"it has too many processes or": {Stacks: slices.Repeat([][]int{{}}, 600_000)},
	} {
		packed, err := pack(c)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := unpack(packed); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d bytes are read: %v, want %q", len(packed), err, want)
		}
	}
}

// Whatever a file holds, it is read as a recording that can be written again, or refused.
func FuzzDecode(f *testing.F) {
	packed, err := pack(whole())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(packed)
	f.Fuzz(func(t *testing.T, packed string) {
		trace := &bench.Trace{Events: []bench.TraceEvent{{Name: eventName, Attributes: []bench.Label{
			{Key: keyFormat, Value: format}, {Key: keyEvents, Value: packed},
		}}}}
		r, err := Decode(trace)
		if err != nil {
			return
		}
		if err := columnsOf(r).check(); err != nil {
			t.Error(err)
		}
	})
}
