package kube_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/fleet/kube"
)

// open is a client of a handler, with a token, a rate and no burst.
func open(t *testing.T, qps float64, h http.HandlerFunc) *kube.Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	file := filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: k, cluster: {server: %q}}],
users: [{name: u, user: {token: secret}}], contexts: [{name: c, context: {cluster: k, user: u}}]}`, s.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := kube.Open(kube.Options{Kubeconfig: file, QPS: qps, Burst: 1, Patience: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAnswersAreBounded(t *testing.T) {
	c := open(t, 1e6, func(w http.ResponseWriter, _ *http.Request) {
		for range 33 {
			if _, err := w.Write(bytes.Repeat([]byte(" "), 1<<20)); err != nil {
				return
			}
		}
	})
	if _, err := c.Nodes(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "larger than 32 MiB") {
		t.Errorf("a page without an end: %v", err)
	}
	log, err := c.Log(t.Context(), "", "p", "tare", 8<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	if n, err := io.Copy(io.Discard, log); n != 8<<20 || err != nil {
		t.Errorf("%d bytes of a log without an end, %v", n, err)
	}
}

func TestListsHaveAnEnd(t *testing.T) {
	c := open(t, 1e6, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"metadata": {"continue": "x"}, "items": []}`)
	})
	if _, err := c.Nodes(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "no end") {
		t.Error(err)
	}
}

func TestAnotherObjectIsNoAnswer(t *testing.T) {
	c := open(t, 1e6, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"metadata": {"name": "b"}}`) })
	m := &kube.ConfigMap{Meta: kube.Meta{Name: "a"}}
	if err := c.Get(t.Context(), m); err == nil || m.Name != "a" {
		t.Errorf("%v, and the object is now %q", err, m.Name)
	}
}

func TestCredentialsFollowNoRedirect(t *testing.T) {
	stolen := false
	thief := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { stolen = true }))
	defer thief.Close()
	c := open(t, 1e6, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, thief.URL, http.StatusFound) })
	if _, err := c.Version(t.Context()); err == nil || stolen {
		t.Errorf("%v; somebody else was asked: %v", err, stolen)
	}
}

// Requests are made at the rate that was asked for, or more slowly.
func TestRate(t *testing.T) {
	c := open(t, 50, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"major": "1", "minor": "34+", "gitVersion": "v1.34.4-x"}`)
	})
	began := time.Now()
	for range 11 {
		if v, err := c.Version(t.Context()); err != nil || v.Minor != 34 {
			t.Fatal(v, err)
		}
	}
	if took := time.Since(began); took < 200*time.Millisecond {
		t.Errorf("11 requests at 50 a second took %v", took)
	}
}
