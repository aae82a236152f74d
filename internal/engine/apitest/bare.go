package apitest

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/engine/enginetest"
)

// A Bare makes an engine's calls with nothing around them, over a connection
// of its own.
type Bare struct {
	Socket string // path of the engine's Unix socket
	Root   string // what precedes every path
	// Create is what is sent to create a container. Calls are those that follow,
	// such as "POST /containers/ID/start".
	Create string
	Calls  []string
}

// Loop returns the bare side of enginetest.Overhead. It leaves it to the
// driver's, which goes first, that there is an image.
func (l Bare) Loop() func(b *testing.B) time.Duration {
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", l.Socket)
		},
	}}
	return func(b *testing.B) time.Duration {
		b.Helper()
		l.call(b, client, "GET /_ping", "") // a connection is open, as after Prepare
		runtime.GC()
		var made struct{ ID string }
		took := enginetest.Time(b, func() error {
			return json.Unmarshal(l.call(b, client, "POST /containers/create", l.Create), &made)
		})
		for _, call := range l.Calls {
			call = strings.Replace(call, "/ID", "/"+made.ID, 1)
			took += enginetest.Time(b, func() error { l.call(b, client, call, ""); return nil })
		}
		return took
	}
}

func (l Bare) call(b *testing.B, client *http.Client, call, body string) (answer []byte) {
	b.Helper()
	method, path, _ := strings.Cut(call, " ")
	r, err := http.NewRequestWithContext(b.Context(), method, "http://engine"+l.Root+path, strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	w, err := client.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	answer, err = io.ReadAll(w.Body)
	if err != nil || w.StatusCode >= 300 {
		b.Fatalf("%s: %s: %s (%v)", call, w.Status, answer, err)
	}
	if err := w.Body.Close(); err != nil {
		b.Fatal(err)
	}
	return answer
}
