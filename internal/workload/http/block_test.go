package http

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/load"
)

func histogram(d time.Duration) *load.Histogram {
	h := load.NewHistogram()
	h.Add(d)
	return h
}

func TestWrite(t *testing.T) {
	total := load.NewHistogram()
	total.AddMany(time.Microsecond, 70)
	total.AddMany(3*time.Microsecond, 30)
	b := block{
		software: "nginx", hostname: "docker", path: "/document", length: 1000, concurrency: "16",
		elapsed: 2 * time.Second, failed: 3, connect: 1, wrongLength: 1, status: 1, timely: 6,
		keepAlive: true, transferred: 8192,
		connecting: histogram(time.Microsecond), processing: histogram(time.Millisecond),
		waiting: histogram(time.Millisecond),
		total:   total,
	}
	const want = `Server Software:        nginx
Server Hostname:        docker

Document Path:          /document
Document Length:        1000 bytes

Concurrency Level:      16
Time taken for tests:   2.000 seconds
Complete requests:      9
Failed requests:        2
   (Connect: 1, Receive: 0, Length: 1, Exceptions: 0)
Non-2xx responses:      1
Keep-Alive requests:    6
Total transferred:      8192 bytes
HTML transferred:       6000 bytes
Requests per second:    3.00 [#/sec] (mean)
Time per request:       0.002 [ms] (mean)
Time per request:       333.333 [ms] (mean, across all concurrent requests)
Transfer rate:          4.00 [Kbytes/sec] received

Connection Times (ms)
                  min     mean  [+/-sd]   median      max
Connect:        0.001    0.001    0.000    0.001    0.001
Processing:     1.000    1.000    0.000    1.000    1.000
Waiting:        1.000    1.000    0.000    1.000    1.000
Total:          0.001    0.002    0.001    0.001    0.003

Percentage of the requests served within a certain time (ms)
  50%     0.001
  66%     0.001
  75%     0.003
  80%     0.003
  90%     0.003
  95%     0.003
  98%     0.003
  99%     0.003
 100%     0.003 (longest request)
`
	var got strings.Builder
	b.write(&got)
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What is not known is left out: it is not 0.
func TestUnknown(t *testing.T) {
	b := block{
		software: "nginx", hostname: "docker", path: "/document", length: math.NaN(), concurrency: "16",
		elapsed: 2 * time.Second, timely: 6, failed: 2, transferred: 8192,
	}
	const want = `Server Software:        nginx
Server Hostname:        docker

Document Path:          /document

Concurrency Level:      16
Time taken for tests:   2.000 seconds
Complete requests:      8
Failed requests:        2
Total transferred:      8192 bytes
Requests per second:    3.00 [#/sec] (mean)
Time per request:       333.333 [ms] (mean, across all concurrent requests)
Transfer rate:          4.00 [Kbytes/sec] received
`
	var got strings.Builder
	b.write(&got)
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A block adds up: what was whole after the end of the time is in none of its
// numbers, and what a tool does not say is not 0.
func TestBlockOf(t *testing.T) {
	none := math.NaN()
	for name, tt := range map[string]struct {
		params map[string]string
		trials [][]float64 // rate, elapsed, requests, failed, bytes, bytes of a document
		want   block
	}{
		"own client": {
			map[string]string{"requests": "0"},
			[][]float64{{500, 2, 1017, 1, 1_200_000, 1000}, {400, 2, 816, 0, 960_000, 1000}},
			block{elapsed: 4 * time.Second, timely: 1800, failed: 1, transferred: 2_160_000, length: 1000},
		},
		"own client, a number of requests": {
			map[string]string{"requests": "1000"},
			[][]float64{{480, 2, 1000, 0, 0, 0}}, // the rate is the median of repetitions
			block{elapsed: 2 * time.Second, timely: 1000},
		},
		"a tool": {
			map[string]string{"requests": "0", "tool": "wrk"},
			[][]float64{{498.76, 2, 1000, 4, 1_200_000, none}},
			block{elapsed: 2 * time.Second, timely: 996, failed: 4, transferred: 1_200_000, length: none},
		},
	} {
		r := &bench.Run{}
		r.Header.Plan.Cells = []bench.Cell{{Params: tt.params}}
		for _, metric := range []string{Rate, Elapsed, Requests, Failed, Bytes, Document} {
			r.Header.Metrics = append(r.Header.Metrics, bench.Metric{Name: metric})
		}
		for _, values := range tt.trials {
			r.Samples = append(r.Samples, bench.Sample{Outcome: bench.OK, Values: values})
		}
		got, err := blockOf(r, 0)
		if err != nil {
			t.Fatal(err)
		}
		tt.want.software, tt.want.path, tt.want.hostname = got.software, "/document", got.hostname
		if diff := cmp.Diff(&tt.want, got, cmpopts.EquateNaNs(), cmp.AllowUnexported(block{}),
			cmpopts.IgnoreFields(block{}, "port")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
