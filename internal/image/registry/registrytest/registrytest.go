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

// Prepared keeps tare's own image and two small layers on top of it.
func Prepared(t testing.TB, images *image.Library) *registry.Prepared {
	t.Helper()
	img, err := images.Resolve(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	prepared, err := registry.Prepare(t.Context(), t.TempDir(), img,
		registry.Padding{Layers: 2, Size: 256 << 10, Files: 3, Compressible: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	return prepared
}

// Content is one image of a prepared image.
func Content(t testing.TB, s *registry.Prepared) *registry.Content {
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

// Misbehaviours are faults of registries, by name. None of them may result in an image, or make a client
// wait longer than its limit. Each wraps a correct registry.
func Misbehaviours() map[string]func(http.Handler) http.Handler {
	return map[string]func(http.Handler) http.Handler{
		"never answers":     respondAlways(hangUntilGone),
		"resets":            respondAlways(reset),
		"is no HTTP server": respondAlways(say("\x00\x01\x02 hello\n")),
		"only has a page":   respondAlways(reply(http.StatusOK, "text/html", "<html><body>Welcome</body></html>")),
		"fails":             respondAlways(reply(http.StatusInternalServerError, "text/plain", "disk on fire")),
		"nonsense manifest": manifests(
			reply(http.StatusOK, "application/vnd.oci.image.manifest.v1+json", `{"schemaVersion":2,"config":7,"layers":"x"}`),
		),
		"stalls in a blob": blobs(truncateBlob(hangUntilGone)),
		"resets in a blob": blobs(truncateBlob(reset)),
		"cuts a blob":      blobs(truncateBlob(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })),
		"other bytes":      otherBytes,
	}
}

// Serve starts a registry with one of the Misbehaviours, and returns the reference of the content there.
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

func respondAlways(do http.HandlerFunc) func(http.Handler) http.Handler {
	return func(http.Handler) http.Handler { return do }
}

func manifests(do http.HandlerFunc) func(http.Handler) http.Handler {
	return onPath("/manifests/", func(w http.ResponseWriter, q *http.Request, _ http.Handler) { do(w, q) })
}

func blobs(do func(http.ResponseWriter, *http.Request, http.Handler)) func(http.Handler) http.Handler {
	return onPath("/blobs/", do)
}

// onPath handles requests whose path contains a word.
func onPath(word string, do func(http.ResponseWriter, *http.Request, http.Handler)) func(http.Handler) http.Handler {
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

// hangUntilGone does not answer until the client leaves.
func hangUntilGone(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() }

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

// truncateBlob sends the beginning of a blob, and then calls then.
func truncateBlob(then http.HandlerFunc) func(http.ResponseWriter, *http.Request, http.Handler) {
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

// otherBytes sends wrong bytes, in the right number.
func otherBytes(good http.Handler) http.Handler {
	return onPath("/blobs/", func(w http.ResponseWriter, q *http.Request, good http.Handler) {
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
