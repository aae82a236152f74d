package http

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/load/https"
	"github.com/tare-bench/tare/internal/supervise"
)

// A server that is not there may be elsewhere, and one that has no such page may have
// another.
func TestNotReady(t *testing.T) {
	without := httptest.NewServer(http.NotFoundHandler())
	defer without.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	for url, advice := range map[string]string{without.URL: "option path", gone.URL: "option port"} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		err := notReady(https.Ready(ctx, url+"/document", false))
		cancel()
		if !errors.Is(err, supervise.ErrNotReady) || !strings.Contains(err.Error(), advice) ||
			strings.Count(err.Error(), "option") != 1 {
			t.Errorf("%v; want %s", err, advice)
		}
	}
	if err := notReady(nil); err != nil {
		t.Error(err)
	}
}
