package docker

import (
	"testing"

	"github.com/tare-bench/tare/internal/engine/builder"
)

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
