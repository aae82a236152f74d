package apachebench_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/report/apachebench"
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
	b := apachebench.Block{
		Software: "nginx", Hostname: "docker", Path: "/document", Length: 1000, Concurrency: "16",
		Elapsed: 2 * time.Second, Failed: 3, Connect: 1, WrongLength: 1, Status: 1, Timely: 6, KeepAlive: true, Transferred: 8192,
		Connecting: histogram(time.Microsecond), Processing: histogram(time.Millisecond), Waiting: histogram(time.Millisecond),
		Total: total,
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
	if err := b.Write(&got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What is not known is left out: it is not 0.
func TestUnknown(t *testing.T) {
	b := apachebench.Block{
		Software: "nginx", Hostname: "docker", Path: "/document", Length: math.NaN(), Concurrency: "16",
		Elapsed: 2 * time.Second, Timely: 6, Failed: 2, Transferred: 8192,
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
	if err := b.Write(&got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
