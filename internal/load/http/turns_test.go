package http_test

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/load/http"
	"github.com/tare-bench/tare/internal/load/loadtest"
	"github.com/tare-bench/tare/internal/load/turn"
)

// inTurns runs a load in turns of 5 ms, between which it rests. Prepared is called when it has had its first turn, in
// which it only prepares itself.
func inTurns(t *testing.T, rest time.Duration, prepared func(), words ...string) *load.Report {
	t.Helper()
	page, err := turn.NewPage(func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	giver, err := turn.Open(t.Context(), os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(giver.Close(), syscall.Close(turn.FD)); err != nil {
			t.Error(err)
		}
	})
	reports := make(chan *load.Report, 1)
	go func() {
		defer page.Reported(true)
		args := loadtest.Args(words...)
		args.Turns = page
		r, err := http.Run(args)
		if err != nil {
			t.Error(err)
		}
		reports <- r
	}()
	err = giver.Await(t.Context())
	for prepared(); giver.Reports() == 0; err = giver.Give(t.Context(), 5*time.Millisecond) {
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(rest)
	}
	r := <-reports
	if r == nil {
		t.FailNow()
	}
	return r
}

// A load that takes no turns does not measure in the turn in which it prepares itself: others may not have measured
// what came before.
func TestWholeInItsOwnTurn(t *testing.T) {
	for name, words := range map[string][]string{
		"open loop": {"rate=1000", "time=50ms", "connections=1"}, "few requests": {"requests=20", "connections=1"},
	} {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int64
			addr := serve(t, func(c net.Conn, _ int) bool {
				requests.Add(1)
				_, err := io.WriteString(c, page)
				return err == nil
			})
			prepared := func() {
				time.Sleep(20 * time.Millisecond)
				if n := requests.Load(); n > 0 {
					t.Errorf("%d requests before it has a turn to measure in", n)
				}
			}
			inTurns(t, 0, prepared, append(words, "addr="+addr, "warmup=0s")...)
			if requests.Load() < 20 {
				t.Errorf("%d requests", requests.Load())
			}
		})
	}
}

// A server may close connections that rest between turns. The next requests have new ones, and none fails.
func TestConnectionsThatRest(t *testing.T) {
	var closed atomic.Int64
	addr := serve(t, func(c net.Conn, _ int) bool {
		_, err := io.WriteString(c, page)
		time.AfterFunc(60*time.Millisecond, func() {
			if c.SetReadDeadline(time.Now()) == nil {
				closed.Add(1)
			}
		})
		return err == nil
	})
	r := inTurns(t, 150*time.Millisecond, func() {}, "addr="+addr, "connections=2", "time=50ms", "warmup=0s")
	if closed.Load() == 0 || r.Values["http.failed"] > 0 {
		t.Errorf("%d connections were closed, and %v requests failed", closed.Load(), r.Values["http.failed"])
	}
}
