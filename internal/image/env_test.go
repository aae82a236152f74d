package image_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/image"
)

func TestMergeEnv(t *testing.T) {
	got := image.MergeEnv([]string{"A=1", "B=2"}, nil, []string{"B=x=y", "C", "AA=1"}, []string{"A="})
	if diff := cmp.Diff([]string{"A=", "B=x=y", "C", "AA=1"}, got); diff != "" {
		t.Errorf("MergeEnv (-want +got):\n%s", diff)
	}
	if image.MergeEnv() == nil {
		t.Error("MergeEnv of nothing is nil")
	}
}
