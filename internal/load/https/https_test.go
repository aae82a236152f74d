package https_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/load"
	plain "github.com/tare-bench/tare/internal/load/http"
	"github.com/tare-bench/tare/internal/load/https"
	"github.com/tare-bench/tare/internal/load/loadtest"
)

// serve answers over TLS and HTTP/2, or one of them, and returns where.
func serve(t *testing.T, secure, second bool, answer http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewUnstartedServer(answer)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(!second)
	s.Config.Protocols.SetHTTP2(second && secure)
	s.Config.Protocols.SetUnencryptedHTTP2(second && !secure)
	s.EnableHTTP2 = second && secure
	if secure {
		s.TLS = new(tls.Config)
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

func run(addr string, words ...string) (*load.Report, error) {
	return https.Run(loadtest.Args(append([]string{"addr=" + addr, "warmup=0s", "connections=3"}, words...)...))
}

func hello(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }

func word(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

// Every way is counted and timed the same.
func TestRequests(t *testing.T) {
	for _, secure := range []bool{true, false} {
		for _, second := range []bool{true, false} {
			addr := serve(t, secure, second, hello)
			ways := []string{"tls=" + word(secure), "http2=" + word(second)}
			for _, keepAlive := range []string{"yes", "no"} {
				r, err := run(addr, append(ways, "requests=30", "expect=5", "keepalive="+keepAlive)...)
				if err != nil {
					t.Errorf("%v: %v", ways, err)
					continue
				}
				connections, err := r.Distributions["http.connect"].Histogram()
				want := map[string]int64{"yes": 3, "no": 30}[keepAlive]
				if err != nil || connections.Count() != want || r.Values["http.requests"] != 30 || r.Values["http.failed"] != 0 ||
					r.Values["http.document"] != 5 {
					t.Errorf("%v, kept alive %s: %v, %v", ways, keepAlive, r.Values, err)
				}
			}
			r, err := run(addr, append(ways, "rate=200", "time=300ms")...)
			if err != nil || r.Values["http.requests"] != 60 {
				t.Errorf("%v at a rate: %v, %v", ways, r, err)
			}
		}
	}
}

// What a server said stands, and not that its last answer did not come in time.
// A server that sends elsewhere is not ready, and nobody goes there.
func TestReadyStaysHere(t *testing.T) {
	var asked atomic.Int64
	other := serve(t, false, false, func(http.ResponseWriter, *http.Request) { asked.Add(1) })
	addr := serve(t, false, false, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://"+other+"/", http.StatusFound)
	})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := https.Ready(ctx, "http://"+addr+"/", false); err == nil || !strings.Contains(err.Error(), "302") ||
		asked.Load() > 0 {
		t.Errorf("%v; the other server was asked %d times", err, asked.Load())
	}
}

func TestReadySaysWhatItSaw(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var asked atomic.Int64
	addr := serve(t, false, false, func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		cancel()
		<-r.Context().Done()
	})
	if err := https.Ready(ctx, "http://"+addr+"/", false); err == nil || !strings.Contains(err.Error(), "418") {
		t.Errorf("%v, want status 418", err)
	}
}

// A server that is wrong is counted by kind, or is an error.
func TestFailures(t *testing.T) {
	status := serve(t, true, true, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			w.WriteHeader(http.StatusTeapot)
		}
	})
	late := serve(t, true, false, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	first := serve(t, true, false, hello)
	for name, test := range map[string]struct {
		addr, says string
		words      []string
	}{
		"status":          {status, "status 418", []string{"http2=yes"}},
		"late":            {late, "timeout: ", []string{"timeout=20ms"}},
		"no TLS":          {serve(t, false, false, hello), "connect: ", nil},
		"another version": {first, "", []string{"http2=yes"}},
		"nobody":          {"127.0.0.1:1", "connection refused", nil},
	} {
		_, err := run(test.addr, append(test.words, "requests=6")...)
		if !errors.Is(err, plain.ErrNoAnswer) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v does not say %q", name, err, test.says)
		}
	}
}
