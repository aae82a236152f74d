package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	pgload "github.com/tare-bench/tare/internal/load/postgres"
)

// begin starts the server proper, reads back what it is, and leaves it ready for the parts.
func (t *trial) begin(ctx context.Context) error {
	prepared, err := t.execute(ctx)
	if err != nil {
		return err
	}
	if err := t.readPath(ctx); err != nil {
		return err
	}
	said, err := t.attestServer(ctx, t.server)
	if err != nil {
		return err
	}
	if t.options.entry {
		if err := t.populate(ctx, t.options); err != nil {
			return err
		}
	}
	if !t.options.cold {
		if err := t.warm(ctx); err != nil {
			return err
		}
	}
	if err := t.alone(ctx); err != nil { // what the warm-up has left would count
		return err
	}
	if rest, ok := t.Usage(ctx); ok {
		t.m.Record(memoryRest, float64(rest.Alone()))
	}
	t.applied = t.Applied(ctx, t.m)
	t.applied.Facts = joined(said, facts{"CPUs": prepared.CPUs})
	return t.attestApplied(prepared, t.applied)
}

// execute has the launcher execute the server or the image's entry point, once everything is prepared, and waits
// until the server answers. It returns what the launcher has prepared.
func (t *trial) execute(ctx context.Context) (agent.Prepared, error) {
	prepared, err := t.Prepared(ctx)
	if err != nil {
		return prepared, err
	}
	if !t.options.entry {
		if err := t.checkCopy(prepared); err != nil {
			return prepared, err
		}
		t.m.Record(copyTime, (prepared.Synced - prepared.Began).Seconds())
	}
	executed, err := t.Execute(ctx, t.m)
	if err != nil {
		return prepared, err
	}
	answered, err := t.answers(ctx)
	if err != nil {
		return prepared, err
	}
	t.m.Record(Ready, (answered - executed).Seconds())
	if t.options.entry {
		t.log.forget()
	}
	return prepared, nil
}

func (t *trial) checkCopy(done agent.Prepared) error {
	switch {
	case done.UID == 0:
		return fmt.Errorf("%w: the server would run as root, which it refuses", bench.ErrMismatch)
	case done.Bytes != t.template.bytes:
		return fmt.Errorf("%w: the copy of the cluster has %d bytes, the template %d", bench.ErrMismatch, done.Bytes,
			t.template.bytes)
	}
	return nil
}

// answers waits until the server answers, and returns when it did. The server is the first process inside: an entry
// point may have another one before, while it makes the cluster.
func (t *trial) answers(ctx context.Context) (at time.Duration, err error) {
	const every = 50 * time.Millisecond
	for end := t.m.Now() + entryTime; ; {
		if err := t.ready(ctx); err != nil {
			return 0, err
		}
		at = t.m.Now()
		err = t.AttestProgram(ctx, t.program.digest)
		switch {
		case err == nil || !t.options.entry:
			return at, err
		case at > end:
			return 0, fmt.Errorf("%w: the image's entry point does not end by executing the server: use entry=tare", err)
		}
		t.disconnect()
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-time.After(every):
		}
	}
}

func (t *trial) readPath(ctx context.Context) error {
	if t.fixture.socket != "" {
		return t.ReadSocketPath(ctx, t.m, pgload.SocketPath(t.fixture.socket, int(t.fixture.port)))
	}
	return t.ReadPath(ctx, t.m, t.fixture.port)
}

// warm reads all accounts in the order of their index, which leaves both in shared buffers. A scan of
// the table would not: it uses a small ring of buffers. It has a connection of its own, since what
// the server counts for it belongs to no part.
func (t *trial) warm(ctx context.Context) (err error) {
	c, err := pgload.Dial(ctx, t.config())
	if err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	for _, query := range []string{
		"SET enable_seqscan = off", "SET enable_bitmapscan = off", "SET max_parallel_workers_per_gather = 0",
		"SELECT sum(abalance) FROM (SELECT abalance FROM pgbench_accounts WHERE aid > 0 ORDER BY aid) AS all_accounts",
		"SELECT count(*) FROM pgbench_tellers WHERE tid > 0", "SELECT count(*) FROM pgbench_branches WHERE bid > 0",
	} {
		if err := c.Exec(ctx, query); err != nil {
			return fmt.Errorf("warm up: %w", err)
		}
	}
	return nil
}
