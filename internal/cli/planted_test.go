package cli_test

import (
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

// wantAtMost wants no more cases among n than chance explains where each happens
// with probability p: a count that chance exceeds less than once in 300 tests.
func wantAtMost(t *testing.T, cases, n int, p float64, what string) {
	t.Helper()
	chance := distuv.Binomial{N: float64(n), P: p}
	most := 0
	for chance.Survival(float64(most)) > 1.0/300 {
		most++
	}
	t.Logf("%d of %d %s; at most %d are chance", cases, n, what, most)
	if cases > most {
		t.Errorf("%d of %d %s, want %d at most", cases, n, what, most)
	}
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}
