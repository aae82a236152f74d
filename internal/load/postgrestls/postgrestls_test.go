package postgrestls_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/load/loadtest"
	"github.com/tare-bench/tare/internal/load/postgres"
	"github.com/tare-bench/tare/internal/load/postgres/postgrestest"
	"github.com/tare-bench/tare/internal/load/postgrestls"
)

// Connections are encrypted as the server sees it: of the small client, and of the load, whose user
// the server accepts only over TLS.
func TestTLS(t *testing.T) {
	s := postgrestest.Start(t, postgrestest.Options{TLS: true, HBA: "host all postgres all trust\n" +
		"hostssl all secret all scram-sha-256\n"})
	c := s.Connect(t)
	if err := errors.Join(c.Exec(t.Context(), "CREATE ROLE secret SUPERUSER LOGIN PASSWORD 'pw'"),
		postgres.Populate(t.Context(), c, 1)); err != nil {
		t.Fatal(err)
	}
	config := s.Config
	config.TLS = postgrestls.Client
	encrypted, err := postgres.Dial(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	for on, conn := range map[bool]*postgres.Conn{true: encrypted, false: c} {
		rows, err := conn.Query(t.Context(), "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
		want := [][]string{{map[bool]string{true: "t", false: "f"}[on]}}
		if diff := cmp.Diff(want, rows); diff != "" || err != nil || conn.TLS() != on {
			t.Errorf("TLS is %v, want %v; %v (-want +got):\n%s", conn.TLS(), on, err, diff)
		}
	}
	if rows, err := encrypted.Query(t.Context(), "SELECT repeat('x', 100000)"); err != nil || len(rows[0][0]) != 100_000 {
		t.Errorf("a long row: %v", err)
	}
	_ = encrypted.Close() // never returns an error
	for _, connect := range []string{"once", "each"} {
		r, err := postgrestls.Run(loadtest.Args(s.Words("tls=yes", "user=secret", "database=postgres", "password=pw",
			"script=tpcb-like", "connect="+connect, "clients=3", "time=200ms", "warmup=0s")...))
		if err != nil {
			t.Fatal(err)
		}
		if r.Values["transactions"] < 1 || r.Facts["tls"] != "yes" {
			t.Errorf("connect=%s: %v, %v", connect, r.Values, r.Facts)
		}
	}
	_, err = postgrestls.Run(loadtest.Args(s.Words("user=secret", "database=postgres", "password=pw")...))
	if err == nil {
		t.Error("without TLS, a user was accepted who needs it")
	}
}

// A server without TLS is an error where TLS is wanted.
func TestNoTLS(t *testing.T) {
	s := postgrestest.Start(t, postgrestest.Options{})
	if _, err := postgrestls.Run(loadtest.Args(s.Words("tls=yes")...)); !errors.Is(err, postgres.ErrNoTLS) {
		t.Errorf("%v, want %v", err, postgres.ErrNoTLS)
	}
}
