package proc_test

import (
	"testing"

	"github.com/tare-bench/tare/internal/kernel/proc"
)

func TestSameMount(t *testing.T) {
	if dir := t.TempDir(); !proc.SameMount(dir, dir) || proc.SameMount("/", "/proc") || proc.SameMount(dir, dir+"/none") {
		t.Errorf("%s itself: %v, /proc and /: %v, one that does not exist: %v", dir,
			proc.SameMount(dir, dir), proc.SameMount("/", "/proc"), proc.SameMount(dir, dir+"/none"))
	}
}
