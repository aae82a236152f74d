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

// A BareLoop makes only an engine's calls, over a connection of its own.
type BareLoop struct {
	Socket string // path of the engine's Unix socket
	Root   string // the prefix of every path
	// Create is the body of the call that creates a container. Calls are the following calls, such
	// as "POST /containers/ID/start"; the last one removes the container.
	Create string
	Calls  []string
}

// Loop returns the bare side of enginetest.Overhead. The driver's side, which goes first, provides
// the image.
func (l BareLoop) Loop() func(b *testing.B) time.Duration {
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
		defer func() {
			if b.Failed() { // do not leave the container behind
				l.call(b, client, of(made.ID, l.Calls[len(l.Calls)-1]), "")
			}
		}()
		for _, call := range l.Calls {
			took += enginetest.Time(b, func() error { l.call(b, client, of(made.ID, call), ""); return nil })
		}
		return took
	}
}

// of names the container of a call.
func of(id, call string) string { return strings.Replace(call, "/ID", "/"+id, 1) }

func (l BareLoop) call(b *testing.B, client *http.Client, call, body string) (answer []byte) {
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
