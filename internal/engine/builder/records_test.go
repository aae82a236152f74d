package builder

import (
	"slices"
	"strings"
	"testing"
)

// Ours is what has the mark and what was made from it, and nothing else. Each record comes after those
// that were made from it.
func TestOwnRecords(t *testing.T) {
	all := []Record{
		{ID: "base", Description: "from local"},
		{ID: "copy", Parents: []string{"run"}, Description: "fileop target"},
		{ID: "run", Parents: []string{"base"}, Description: "mount / from exec /tare-agent echo tare-build/r/n/1"},
		{ID: "merged", Parents: []string{"other", "copy"}},
		{ID: "context", Description: "local source for context"},
		{ID: "other", Parents: []string{"base"}, Description: "mount / from exec make"},
		{ID: "stage", Parents: []string{"base"}, Description: "mount / from exec /tare-agent echo tare-build/r/n/2"},
	}
	got := OwnRecords(all, func(r Record) bool { return strings.Contains(r.Description, "tare-build/r/n/") })
	order := func(id string) int { return slices.Index(got, id) }
	if len(got) != 4 || order("stage") < 0 || order("merged") > order("copy") || order("copy") > order("run") {
		t.Errorf("%q", got)
	}
	// One from which somebody else's was made stays, and nothing is tried for ever.
	loop := []Record{{ID: "a", Parents: []string{"b"}, Description: "ours"}, {ID: "b", Parents: []string{"a"}}}
	if got := OwnRecords(loop, func(r Record) bool { return r.Description == "ours" }); len(got) != 0 {
		t.Errorf("of a loop: %q", got)
	}
}
