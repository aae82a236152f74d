package report_test

import (
	"testing"

	"github.com/tare-bench/tare/internal/bench"
)

// TestSinglesOfPrimary checks that primary metrics have single values, and that no other metric has.
func TestSinglesOfPrimary(t *testing.T) {
	for _, s := range states() {
		for _, m := range s.document(t).Metrics {
			for _, c := range m.Conditions {
				for _, r := range c.Rows {
					if has, want := r.Values != nil, m.Role == bench.Primary; has != want && (has || r.N > 0) {
						t.Errorf("%s: %s of %s, which is %s: has values %v, want %v", s.name, m.Name, r.Cell, m.Role, has, want)
					}
				}
			}
		}
	}
}
