package cli

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/report/apachebench"
	"github.com/tare-bench/tare/internal/workload/http"
)

// A block adds up: what was whole after the end of the time is in none of its
// numbers, and what a tool does not say is not 0.
func TestBlockOf(t *testing.T) {
	none := math.NaN()
	for name, tt := range map[string]struct {
		params map[string]string
		trials [][]float64 // rate, elapsed, requests, failed, bytes, bytes of a document
		want   apachebench.Block
	}{
		"own client": {
			map[string]string{"requests": "0"},
			[][]float64{{500, 2, 1017, 1, 1_200_000, 1000}, {400, 2, 816, 0, 960_000, 1000}},
			apachebench.Block{Elapsed: 4 * time.Second, Timely: 1800, Failed: 1, Transferred: 2_160_000, Length: 1000},
		},
		"own client, a number of requests": {
			map[string]string{"requests": "1000"},
			[][]float64{{480, 2, 1000, 0, 0, 0}}, // the rate is the median of repetitions
			apachebench.Block{Elapsed: 2 * time.Second, Timely: 1000},
		},
		"a tool": {
			map[string]string{"requests": "0", "tool": "wrk"},
			[][]float64{{498.76, 2, 1000, 4, 1_200_000, none}},
			apachebench.Block{Elapsed: 2 * time.Second, Timely: 996, Failed: 4, Transferred: 1_200_000, Length: none},
		},
	} {
		r := &bench.Run{}
		r.Header.Plan.Cells = []bench.Cell{{Params: tt.params}}
		for _, metric := range []string{http.Rate, http.Elapsed, http.Requests, http.Failed, http.Bytes, http.Document} {
			r.Header.Metrics = append(r.Header.Metrics, bench.Metric{Name: metric})
		}
		for _, values := range tt.trials {
			r.Samples = append(r.Samples, bench.Sample{Outcome: bench.OK, Values: values})
		}
		got, err := blockOf(r, 0)
		if err != nil {
			t.Fatal(err)
		}
		tt.want.Software, tt.want.Path, tt.want.Hostname = got.Software, "/document", got.Hostname
		if diff := cmp.Diff(&tt.want, got, cmpopts.EquateNaNs(), cmpopts.IgnoreFields(apachebench.Block{}, "Port")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
