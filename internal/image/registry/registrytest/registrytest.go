// Package registrytest has an image for tests of registries, and registries that misbehave.
package registrytest

import (
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/image"
	"github.com/tare-bench/tare/internal/image/registry"
)

// Stock keeps tare's own image and two small layers on top of it.
func Stock(t testing.TB, images *image.Library) *registry.Stock {
	t.Helper()
	img, err := images.Resolve(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	stock, err := registry.Keep(t.Context(), t.TempDir(), img, registry.Fill{Layers: 2, Size: 256 << 10, Files: 3, Compressible: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	return stock
}

// Content is one image of a stock.
func Content(t testing.TB, s *registry.Stock) *registry.Content {
	t.Helper()
	c, err := s.Content()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Listen starts a registry that runs until the test ends.
func Listen(t testing.TB, o registry.Options) *registry.Registry {
	t.Helper()
	r, err := registry.Listen(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// Misdeeds are faults of registries, by name. None of them may result in an image, or make a client
// wait longer than its limit. Each wraps a correct registry.
func Misdeeds() map[string]func(http.Handler) http.Handler {
	return map[string]func(http.Handler) http.Handler{
		"never answers":     always(silence),
		"resets":            always(reset),
		"is no HTTP server": always(say("\x00\x01\x02 hello\n")),
		"only has a page":   always(reply(http.StatusOK, "text/html", "<html><body>Welcome</body></html>")),
		"fails":             always(reply(http.StatusInternalServerError, "text/plain", "disk on fire")),
		"nonsense manifest": manifests(reply(http.StatusOK, "application/vnd.oci.image.manifest.v1+json", `{"schemaVersion":2,"config":7,"layers":"x"}`)),
		"stalls in a blob":  blobs(partly(silence)),
		"resets in a blob":  blobs(partly(reset)),
		"cuts a blob":       blobs(partly(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })),
		"other bytes":       other,
	}
}

// Serve starts a registry with one of the Misdeeds, and returns the reference of the content there.
func Serve(t testing.TB, c *registry.Content, name string, misdeed func(http.Handler) http.Handler) string {
	t.Helper()
	r := Listen(t, registry.Options{})
	began := time.Now()
	o := r.Offer(name, c, func() time.Duration { return time.Since(began) })
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.Server{Listener: l, Config: &http.Server{Handler: misdeed(r), ReadHeaderTimeout: time.Minute}}
	s.Start()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return o.At(l.Addr().String())
}

func always(do http.HandlerFunc) func(http.Handler) http.Handler {
	return func(http.Handler) http.Handler { return do }
}

func manifests(do http.HandlerFunc) func(http.Handler) http.Handler {
	return of("/manifests/", func(w http.ResponseWriter, q *http.Request, _ http.Handler) { do(w, q) })
}

func blobs(do func(http.ResponseWriter, *http.Request, http.Handler)) func(http.Handler) http.Handler {
	return of("/blobs/", do)
}

// of handles requests whose path contains a word.
func of(word string, do func(http.ResponseWriter, *http.Request, http.Handler)) func(http.Handler) http.Handler {
	return func(good http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if strings.Contains(q.URL.Path, word) && q.Method == http.MethodGet {
				do(w, q, good)
				return
			}
			good.ServeHTTP(w, q)
		})
	}
}

// silence does not answer until the client leaves.
func silence(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() }

func reply(status int, kind, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text) // the client sees what is missing, here and below
	}
}

func say(text string) http.HandlerFunc {
	return hijacked(func(c net.Conn) { _, _ = io.WriteString(c, text) })
}

func reset(w http.ResponseWriter, q *http.Request) {
	hijacked(func(c net.Conn) {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // then closing it resets it
		}
	})(w, q)
}

func hijacked(use func(net.Conn)) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = c.Close() }()
		use(c)
	}
}

// partly sends the beginning of a blob, and then calls then.
func partly(then http.HandlerFunc) func(http.ResponseWriter, *http.Request, http.Handler) {
	return func(w http.ResponseWriter, q *http.Request, good http.Handler) {
		whole := httptest.NewRecorder()
		good.ServeHTTP(whole, q)
		maps.Copy(w.Header(), whole.Header())
		w.WriteHeader(whole.Code)
		_, _ = w.Write(whole.Body.Bytes()[:whole.Body.Len()/2])
		_ = http.NewResponseController(w).Flush()
		then(w, q)
	}
}

// other sends wrong bytes, in the right number.
func other(good http.Handler) http.Handler {
	return of("/blobs/", func(w http.ResponseWriter, q *http.Request, good http.Handler) {
		whole := httptest.NewRecorder()
		good.ServeHTTP(whole, q)
		maps.Copy(w.Header(), whole.Header())
		w.WriteHeader(whole.Code)
		text := whole.Body.Bytes()
		if len(text) > 0 {
			text[len(text)/2] ^= 1
		}
		_, _ = w.Write(text)
	})(good)
}
