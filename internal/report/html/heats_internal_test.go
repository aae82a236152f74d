package html

import (
	"testing"

	"github.com/tare-bench/tare/internal/report"
)

// A metric without any condition has no map.
func TestNoHeat(t *testing.T) {
	if all := heats(&report.Metric{}); all != nil {
		t.Errorf("%d maps, want none", len(all))
	}
}
