package docker

import (
	"slices"
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/engine/builder"
)

// Ours is what has the mark and what was made from it, and nothing else. Each record comes after those
// that were made from it.
func TestOwnRecords(t *testing.T) {
	all := []buildRecord{
		{ID: "base", Description: "from local"},
		{ID: "copy", Parent: "run", Description: "fileop target"},
		{ID: "run", Parent: "base", Description: "mount / from exec /tare-agent echo tare-build/r/n/1"},
		{ID: "merged", Parents: []string{"other", "copy"}},
		{ID: "context", Description: "local source for context"},
		{ID: "other", Parent: "base", Description: "mount / from exec make"},
		{ID: "stage", Parent: "base", Description: "mount / from exec /tare-agent echo tare-build/r/n/2"},
	}
	got := ownRecords(all, func(text string) bool { return strings.Contains(text, "tare-build/r/n/") })
	order := func(id string) int { return slices.Index(got, id) }
	if len(got) != 4 || order("stage") < 0 || order("merged") > order("copy") || order("copy") > order("run") {
		t.Errorf("%q", got)
	}
	// One from which somebody else's was made stays, and nothing is tried for ever.
	loop := []buildRecord{{ID: "a", Parent: "b", Description: "ours"}, {ID: "b", Parent: "a"}}
	if got := ownRecords(loop, func(text string) bool { return text == "ours" }); len(got) != 0 {
		t.Errorf("of a loop: %q", got)
	}
}

func TestWantsKit(t *testing.T) {
	for _, test := range []struct {
		variable, command string
		want              bool
	}{
		{"", "20.10.24", false}, {"", "23.0.1", true}, {"1", "20.10.24", true}, {"0", "28.2.2", false}, {"false", "28.2.2", false},
	} {
		if got := wantsKit(test.variable, builder.VersionIn(test.command, "")); got != test.want {
			t.Errorf("DOCKER_BUILDKIT=%q, docker %s: %v", test.variable, test.command, got)
		}
	}
}
