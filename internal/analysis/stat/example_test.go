package stat_test

import (
	"fmt"
	"math"

	"github.com/tare-bench/tare/internal/analysis/stat"
)

// Eight blocks: seconds to start, natively and in a container.
func ExampleSignedRank() {
	native := []float64{1.00, 1.02, 0.99, 1.31, 1.01, 1.00, 1.03, 0.98}
	container := []float64{1.19, 1.25, 1.21, 1.55, 1.20, 1.22, 1.23, 1.60}
	d := make([]float64, len(native))
	for i := range d {
		d[i] = math.Log(container[i]) - math.Log(native[i])
	}
	r := stat.SignedRank(d, 0.95)
	fmt.Printf("×%.2f (%.2f to %.2f at %.1f %%), p = %.4f\n", math.Exp(r.Estimate),
		math.Exp(r.Interval.Low), math.Exp(r.Interval.High), 100*r.Interval.Level, r.P)
	// Output: ×1.21 (1.19 to 1.41 at 96.1 %), p = 0.0078
}

func ExampleHolm() {
	fmt.Println(stat.Holm([]float64{0.01, 0.04, 0.03}))
	// Output: [0.03 0.06 0.06]
}
