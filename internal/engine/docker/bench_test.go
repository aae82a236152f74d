package docker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/docker"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/image/imagetest"
)

// BenchmarkOverhead compares create, start, wait and remove through the driver
// with a bare loop over the same API calls. One iteration is one container each
// way, in alternating order; "ratio" is the median of the driver's times over
// the median of the bare ones.
func BenchmarkOverhead(b *testing.B) {
	site := enginetest.NewSite(b, imagetest.Library(b))
	e := docker.New(docker.Config{Name: "docker", Run: site.Run, Dir: site.Dir, Images: site.Images})
	_, err := e.Probe(b.Context())
	enginetest.Require(b, "docker", err)
	b.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			b.Error(err)
		}
	})
	bare := newBare(b, e, site.Run)
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

func newBare(b *testing.B, e *docker.Engine, run string) *bareLoop {
	b.Helper()
	if err := e.Prepare(b.Context(), task()); err != nil {
		b.Fatal(err)
	}
	l := &bareLoop{client: http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", "/var/run/docker.sock")
		},
	}}}
	l.body = []byte(`{"Image":"tare.local/` + run + `/docker/agent:latest","Entrypoint":["` + agent.Path + `"],"Cmd":["exit","0"],` +
		`"Labels":{"tare.run":"` + run + `"},"HostConfig":{"NetworkMode":"none"}}`)
	return l
}

func (l *bareLoop) call(b *testing.B, method, path string, body []byte) (answer []byte) {
	b.Helper()
	r, err := http.NewRequestWithContext(b.Context(), method, "http://docker/v1.41"+path, bytes.NewReader(body))
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
	at := "/containers/" + strings.TrimSpace(made.ID)
	for _, call := range [][2]string{
		{http.MethodPost, at + "/start"},
		{http.MethodPost, at + "/wait?condition=not-running"},
		{http.MethodDelete, at + "?force=1&v=1"},
	} {
		total += seconds(b, func() error { l.call(b, call[0], call[1], nil); return nil })
	}
	return total
}
