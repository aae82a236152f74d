package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	load "github.com/tare-bench/tare/internal/load/postgres"
	"github.com/tare-bench/tare/internal/supervise"
)

// userName is the superuser of the cluster, and the name of its database.
const userName = "postgres"

// A server is a running PostgreSQL.
type server struct {
	*supervise.Process
	engine   bench.Engine
	log      *serverLog
	clock    bench.Clock
	port     uint16
	socket   string // directory of its Unix socket; empty = clients use TCP
	password string
	within   time.Duration // it must answer its first query; 0 = readyTime
	stopping time.Duration // it may take to stop; 0 = stopTime
	diskFull string        // what that means and what to do; empty = as in a trial
	tls      load.TLS      // of tare's own connection; nil = none
	at       netip.AddrPort
	sql      *load.Conn // tare's own connection
	stopped  bool       // it has ended as it was told
}

// config says how tare connects.
func (s *server) config() load.Config {
	return load.Config{
		Address: s.at, Socket: s.socket, Port: int(s.port), User: userName, Database: userName, Password: s.password,
		TLS: s.tls,
	}
}

// while cancels do when the server ends, and returns how it ended: a client knows only that the
// server does not answer.
func (s *server) while(ctx context.Context, do func(context.Context) error) error {
	running, end := context.WithCancelCause(ctx)
	defer end(nil)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		end(&endedError{s.Ended(running)})
	}()
	err := do(running)
	s.disconnect()
	if cause := context.Cause(running); err != nil && cause != nil && ctx.Err() == nil {
		err = cause
	}
	end(nil)
	<-ended // until then, Wait may still write to the log
	return err
}

// An endedError says how the server ended while it was needed.
type endedError struct{ err error }

func (e *endedError) Error() string { return e.err.Error() }
func (e *endedError) Unwrap() error { return e.err }

// hasEnded returns how the server ended, if that is why the context of while has ended.
func hasEnded(ctx context.Context) error {
	if ended, ok := errors.AsType[*endedError](context.Cause(ctx)); ok {
		return ended
	}
	return nil
}

// The time within which a server must answer its first query, and how often it is asked.
const (
	readyTime  = 30 * time.Second
	readyEvery = 2 * time.Millisecond
)

// ready waits for the first answer to a query, and keeps the connection.
func (s *server) ready(ctx context.Context) (err error) {
	if s.socket == "" {
		if s.at, err = s.Address(ctx, s.clock, s.port); err != nil {
			return err
		}
	}
	_, err = s.clock.Step("ready", func() error {
		within := cmp.Or(s.within, readyTime)
		limited, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		for {
			if s.sql, err = s.dial(limited); err == nil || !isStarting(err) {
				return err
			}
			select {
			case <-limited.Done():
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				return fmt.Errorf("the server was %w (%v): %w", supervise.ErrNotReady, within, err)
			case <-time.After(readyEvery):
			}
		}
	})
	return err
}

// dial connects and asks a first query.
func (s *server) dial(ctx context.Context) (*load.Conn, error) {
	c, err := load.Dial(ctx, s.config())
	if err != nil {
		return nil, err
	}
	if err = c.Exec(ctx, "SELECT 1"); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// isStarting reports whether the server may answer later: nobody listens yet, what passes the
// connection on has nobody to pass it to, or the server says that it is starting up.
func isStarting(err error) bool {
	if said, ok := errors.AsType[*load.ServerError](err); ok {
		return said.Code == codeCannotConnectNow
	}
	_, foreign := errors.AsType[*load.ProtocolError](err)
	return !foreign && !errors.Is(err, load.ErrPassword)
}

// disconnect closes tare's own connection.
func (s *server) disconnect() {
	if s.sql != nil {
		_ = s.sql.Close() // nothing was left to say
		s.sql = nil
	}
}

// The time that a server gets to stop: after a signal to end its connections, where it has little to write, and after one
// to give up.
const (
	stopTime = 15 * time.Second
	quitTime = 3 * time.Second
)

// stop ends the server cleanly: killed, it would leave shared memory behind on the host.
func (s *server) stop(ctx context.Context) error {
	signaler, ok := bench.As[bench.Signaler](s.engine)
	if !ok {
		return nil // everything is removed with the container
	}
	stopTime := cmp.Or(s.stopping, stopTime)
	for _, try := range []struct {
		signal syscall.Signal
		within time.Duration
	}{{syscall.SIGINT, stopTime}, {syscall.SIGQUIT, quitTime}} {
		if err := signaler.Signal(ctx, s.Container(), try.signal); err != nil {
			return err
		}
		limited, cancel := context.WithTimeout(ctx, try.within)
		exit, err := s.Container().Wait(limited)
		cancel()
		switch {
		case err == nil && try.signal == syscall.SIGINT && exit != (bench.Exit{}):
			return fmt.Errorf("the server did not stop cleanly: %v", exit)
		case err == nil && try.signal == syscall.SIGQUIT:
			return fmt.Errorf("the server did not stop within %v of SIGINT, and was ended by SIGQUIT", stopTime)
		case err == nil:
			s.stopped = true
			return nil
		case ctx.Err() != nil:
			return err
		}
	}
	return fmt.Errorf("the server did not stop within %v of SIGINT and SIGQUIT", stopTime+quitTime)
}

// end removes the server. If its trial has ended early, it is stopped before. It may be called twice.
func (s *server) end(ctx context.Context) error {
	s.disconnect()
	if signaler, ok := bench.As[bench.Signaler](s.engine); ok && !s.stopped {
		// One that has ended cannot be signalled.
		for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT} {
			if signaler.Signal(ctx, s.Container(), signal) != nil {
				break
			}
			limited, cancel := context.WithTimeout(ctx, quitTime)
			_, err := s.Container().Wait(limited)
			cancel()
			if err == nil {
				break
			}
		}
		s.stopped = true // or it does not listen
	}
	return s.Remove(ctx)
}

// dropUnused drops the databases that others are copied from, which have two thirds of the cluster's files. Trials copy
// all files, and remove them: ext4 makes files slowly where many have just been removed, since it looks for inodes that
// have been free for a while.
func (s *server) dropUnused(ctx context.Context) error {
	for _, statement := range []string{
		"UPDATE pg_database SET datistemplate = false", "DROP DATABASE template1", "DROP DATABASE template0",
	} {
		if err := s.sql.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// populate makes the tables, and leaves the cluster as if it had just come to rest.
func (s *server) populate(ctx context.Context, o options) error {
	if err := load.Populate(ctx, s.sql, o.scale); err != nil {
		return err
	}
	statements := []string{"VACUUM (FREEZE, ANALYZE)"}
	// Segments that are there for later use come from segments that a checkpoint frees.
	for range o.readySegments() {
		statements = append(statements, "SELECT pg_logical_emit_message(false, 'tare', '')", "SELECT pg_switch_wal()")
	}
	for _, statement := range append(statements, "CHECKPOINT") {
		if err := s.sql.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}
