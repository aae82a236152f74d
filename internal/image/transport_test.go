package image

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestRedirections(t *testing.T) {
	for _, test := range []struct {
		from, to string
		refused  bool
	}{
		{"https://registry.example/v2/", "https://cdn.example/blob", false},
		{"https://registry.example/v2/", "https://169.254.169.254/latest/meta-data", true},
		{"https://registry.example/v2/", "https://10.0.0.1/x", true},
		{"https://registry.example/v2/", "https://[::ffff:192.168.0.1]/x", true},
		{"https://registry.example/v2/", "https://[fe80::1]/x", true},
		{"https://registry.example/v2/", "https://127.0.0.1/x", true},
		{"https://registry.example/v2/", "https://localhost/x", true},
		{"https://registry.example/v2/", "https://0.0.0.0/x", true},
		{"https://10.0.0.1/v2/", "https://10.0.0.1/x", false},
		{"https://10.0.0.1/v2/", "https://10.0.0.1:9000/x", false},
		{"https://10.0.0.1/v2/", "https://10.0.0.2/x", true},
		{"https://10.0.0.1/v2/", "https://127.0.0.1/x", true},
		{"http://127.0.0.1:5000/v2/", "http://127.0.0.1:5000/x", false},
		{"http://127.0.0.1:5000/v2/", "http://127.0.0.1:6000/x", true},
	} {
		if err := checkAddress(request(t, test.from).URL,
			request(t, test.to).URL); errors.Is(err, ErrHostile) != test.refused {
			t.Errorf("%s → %s: %v, want refused: %v", test.from, test.to, err, test.refused)
		}
	}
}

// A name that leads into this network is refused as its address would be.
func TestGuard(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	port := s.URL[strings.LastIndex(s.URL, ":"):]
	for _, test := range []struct {
		registry string
		inside   bool
		to       string
		refused  bool
	}{
		{"registry.example:443", false, "localhost" + port, true},
		{"localhost" + port, false, "localhost" + port, false},
		{"registry.corp:443", true, "localhost" + port, false},
	} {
		g := &guard{registry: test.registry}
		g.isPrivate.Store(test.inside)
		conn, err := g.dial(t.Context(), "tcp4", test.to)
		if err == nil {
			err = conn.Close()
		}
		if errors.Is(err, ErrHostile) != test.refused || !test.refused && (err != nil || !g.isPrivate.Load()) {
			t.Errorf("%+v: %v", test, err)
		}
	}
}

func TestPlainHTTP(t *testing.T) {
	for url, refused := range map[string]bool{
		"http://registry.example/v2/": true, "http://10.0.0.1:5000/v2/": true, "http://localhost.example/": true,
		"http://localhost:5000/v2/": false, "http://127.0.0.1:5000/": false, "http://[::1]:5000/": false,
		"http://a.localhost/":          false,
		"https://registry.example/v2/": false,
	} {
		sent := false
		next := roundTripper(func(*http.Request) (*http.Response, error) {
			sent = true
			return &http.Response{Body: http.NoBody}, nil
		})
		answer, err := bounded{next, 1 << 40}.RoundTrip(request(t, url))
		if err == nil {
			err = answer.Body.Close()
		}
		if errors.Is(err, errPlain) != refused || sent == refused {
			t.Errorf("%s: %v, sent: %v; want refused: %v", url, err, sent, refused)
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(q *http.Request) (*http.Response, error) { return r(q) }

func request(t *testing.T, url string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
