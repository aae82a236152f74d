package podman_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/engine/podman"
	"github.com/tare-bench/tare/internal/image/imagetest"
)

// BenchmarkOverhead compares create, start, wait and remove through the driver
// with a bare loop over the same API calls. One iteration is one container each
// way, in alternating order; "ratio" is the median of the driver's times over
// the median of the bare ones. The bare loop waits as the API does by itself,
// with the driver's interval of looking: before Podman 5.3 the driver waits for
// the monitor first and comes out below 1.
func BenchmarkOverhead(b *testing.B) {
	_, err := podman.New(podman.Config{Name: "podman"}).Probe(b.Context())
	enginetest.Require(b, "podman", err)
	socket := serviceOfTest(b)
	site := enginetest.NewSite(b, imagetest.Library(b))
	e := podman.New(podman.Config{Name: "podman", Run: site.Run, Dir: site.Dir, Images: site.Images, Host: "unix://" + socket})
	b.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			b.Error(err)
		}
	})
	bare := newBare(b, e, site.Run, socket)
	var driven, plain []float64
	for n := 0; b.Loop(); n++ {
		if n%2 == 0 {
			driven = append(driven, drive(b, e))
			plain = append(plain, bare.run(b))
		} else {
			plain = append(plain, bare.run(b))
			driven = append(driven, drive(b, e))
		}
	}
	b.ReportMetric(median(driven)*1e3, "driver-ms")
	b.ReportMetric(median(plain)*1e3, "bare-ms")
	b.ReportMetric(median(driven)/median(plain), "ratio")
}

// serviceOfTest starts a service and returns its socket.
func serviceOfTest(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("", "tare-bench-")
	if err != nil {
		tb.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	cmd := exec.Command("podman", "system", "service", "-t", "0", "unix://"+socket)
	cmd.Dir = "/"
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = cmd.Process.Kill() // fails only if it has ended
		_ = cmd.Wait()         // the signal is its error
		if err := os.RemoveAll(dir); err != nil {
			tb.Error(err)
		}
	})
	for begin := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			_ = conn.Close() // nothing was written
			return socket
		}
		if time.Since(begin) > time.Minute {
			tb.Fatal(err)
		}
	}
}

func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return (x[len(x)/2] + x[(len(x)-1)/2]) / 2
}

func task() bench.Spec { return bench.Spec{Argv: []string{agent.Path, "exit", "0"}} }

// drive takes one container through the driver and returns the seconds that
// Create, Start, Wait and Remove took.
func drive(b *testing.B, e bench.Engine) float64 {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	if err := e.Prepare(ctx, task()); err != nil {
		b.Fatal(err)
	}
	runtime.GC()
	var c bench.Container
	total := seconds(b, func() (err error) { c, err = e.Create(ctx, task()); return err })
	total += seconds(b, func() error { return c.Start(ctx) })
	total += seconds(b, func() error { _, err := c.Wait(ctx); return err })
	return total + seconds(b, func() error { return c.Remove(ctx) })
}

func seconds(b *testing.B, op func() error) float64 {
	b.Helper()
	begin := time.Now()
	err := op()
	took := time.Since(begin)
	if err != nil {
		b.Fatal(err)
	}
	return took.Seconds()
}

// A bareLoop makes the driver's calls over a connection of its own, with the
// body that the driver sends.
type bareLoop struct {
	client http.Client
	body   []byte
}

func newBare(b *testing.B, e *podman.Engine, run, socket string) *bareLoop {
	b.Helper()
	if err := e.Prepare(b.Context(), task()); err != nil {
		b.Fatal(err)
	}
	l := &bareLoop{client: http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}}
	l.body = []byte(`{"image":"tare.local/` + run + `/podman/agent:latest","entrypoint":["` + agent.Path + `"],"command":["exit","0"],` +
		`"labels":{"tare.run":"` + run + `"},"netns":{"nsmode":"none"}}`)
	return l
}

func (l *bareLoop) call(b *testing.B, method, path string, body []byte) (answer []byte) {
	b.Helper()
	r, err := http.NewRequestWithContext(b.Context(), method, "http://podman/v4.0.0/libpod"+path, bytes.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	w, err := l.client.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	answer, err = io.ReadAll(w.Body)
	if err != nil || w.StatusCode >= 300 {
		b.Fatalf("%s %s: %s: %s (%v)", method, path, w.Status, answer, err)
	}
	if err := w.Body.Close(); err != nil {
		b.Fatal(err)
	}
	return answer
}

// run takes one container through its life and returns the seconds that the
// calls took.
func (l *bareLoop) run(b *testing.B) float64 {
	b.Helper()
	l.call(b, http.MethodGet, "/_ping", nil) // a connection is open, as after Prepare
	runtime.GC()
	var made struct{ ID string }
	total := seconds(b, func() error {
		return json.Unmarshal(l.call(b, http.MethodPost, "/containers/create", l.body), &made)
	})
	at := "/containers/" + made.ID
	for _, call := range [][2]string{
		{http.MethodPost, at + "/start"},
		{http.MethodPost, at + "/wait?condition=exited&interval=20ms"},
		{http.MethodDelete, at + "?force=true&volumes=true&timeout=0"},
	} {
		total += seconds(b, func() error { l.call(b, call[0], call[1], nil); return nil })
	}
	return total
}
