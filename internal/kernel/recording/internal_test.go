package recording

import (
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
