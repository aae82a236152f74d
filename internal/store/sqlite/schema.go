package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// applicationID is "tare" in ASCII. It stands in the file, so that a store is
// told from other SQLite files.
const applicationID = 0x74617265

// migrations turn a file of version i into one of version i+1. A released one
// never changes.
func migrations() []string {
	return []string{`
CREATE TABLE runs (
	number INTEGER PRIMARY KEY,
	id     TEXT NOT NULL UNIQUE,
	began  TEXT NOT NULL,          -- as timeLayout, so that it sorts
	header TEXT NOT NULL,          -- JSON, as in docs/format.md
	ended  TEXT                    -- JSON of the end; NULL while incomplete
) STRICT;
CREATE INDEX runs_by_time ON runs (began, id);

-- What engines applied is the same in nearly all samples of a cell.
CREATE TABLE applied (
	number INTEGER PRIMARY KEY,
	json   TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE samples (
	run       INTEGER NOT NULL REFERENCES runs,
	seq       INTEGER NOT NULL,
	block     INTEGER NOT NULL,
	cell      INTEGER NOT NULL,
	began     TEXT,                -- as timeLayout; NULL where the trial never began
	elapsed   INTEGER NOT NULL,    -- nanoseconds
	outcome   TEXT NOT NULL,
	operation TEXT NOT NULL,
	reason    TEXT NOT NULL,
	"values"  BLOB,                -- little-endian float64, parallel to the header's metrics; NULL unless ok
	applied   INTEGER REFERENCES applied,
	notes     TEXT,                -- JSON array; NULL where there are none
	PRIMARY KEY (run, seq)
) STRICT, WITHOUT ROWID;

-- The list shows how many trials failed without reading the samples.
CREATE INDEX failures ON samples (run) WHERE outcome IN ('failed', 'timed-out');

CREATE TABLE resumptions (
	number INTEGER PRIMARY KEY,    -- in order
	run    INTEGER NOT NULL REFERENCES runs,
	json   TEXT NOT NULL
) STRICT;
CREATE INDEX resumptions_of_run ON resumptions (run);
`, `
-- As encodeSeries writes them; NULL where there are none.
ALTER TABLE samples ADD COLUMN series BLOB;
`, `
-- JSON array; NULL where there are none.
ALTER TABLE samples ADD COLUMN distributions TEXT;
`, `
-- The list shows this number as well: of notes that begin as
-- bench.NotePartFailed says, and not of such words inside another note.
CREATE INDEX partial_failures ON samples (run)
	WHERE outcome = 'ok' AND instr(replace(notes, '\"', ''), '"part-failed: ') > 0;
`, `
-- Nanoseconds between the two looks at the host; 0 where that is not known.
ALTER TABLE samples ADD COLUMN counted INTEGER NOT NULL DEFAULT 0;

-- Checksums, as sum makes them. What was stored before there were any has none.
ALTER TABLE runs ADD COLUMN sum INTEGER;           -- of id, began and header
ALTER TABLE runs ADD COLUMN ended_sum INTEGER;     -- of id, ended and the number of samples
ALTER TABLE samples ADD COLUMN sum INTEGER;        -- of the run's id and the columns, applied as its JSON
ALTER TABLE resumptions ADD COLUMN sum INTEGER;    -- of the run's id and the JSON

-- How many rows belong to a run that has checksums, so that one that is gone is missed.
CREATE TABLE counts (
	run         INTEGER PRIMARY KEY REFERENCES runs,
	samples     INTEGER NOT NULL,
	resumptions INTEGER NOT NULL
) STRICT;
-- Not of a run without a checksum: an older process has the file open.
CREATE TRIGGER run_counted AFTER INSERT ON runs WHEN new.sum IS NOT NULL BEGIN
	INSERT INTO counts VALUES (new.number, 0, 0);
END;
CREATE TRIGGER sample_counted AFTER INSERT ON samples BEGIN
	UPDATE counts SET samples = new.seq + 1 WHERE run = new.run;
END;
CREATE TRIGGER resumption_counted AFTER INSERT ON resumptions BEGIN
	UPDATE counts SET resumptions = resumptions + 1 WHERE run = new.run;
END;
`, `
-- JSON object; NULL where there is none. It is in a row's checksum only where it is there.
ALTER TABLE samples ADD COLUMN trace TEXT;
`}
}

// timeLayout has as many digits for every time, so that text sorts as time.
const timeLayout = "2006-01-02T15:04:05.000000000Z"

// migrate makes the file a store of the current version.
func (s *Store) migrate(ctx context.Context) error {
	deadline := time.Now().Add(patience)
	for {
		err := s.tryMigrate(ctx)
		// SQLite does not wait for its busy timeout where that could be a
		// deadlock, as when two processes make the same file.
		if !errors.Is(err, ErrBusy) || time.Now().After(deadline) || ctx.Err() != nil {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (s *Store) tryMigrate(ctx context.Context) error {
	if err := s.check(ctx); !errors.Is(err, errOlder) {
		return err
	}
	// Only now: it changes the file, and cannot be done in a transaction.
	if _, err := s.db.ExecContext(ctx, "PRAGMA journal_mode = WAL"); err != nil {
		return s.wrap(err)
	}
	return s.transact(ctx, nil, func(tx *sql.Tx) error {
		version, err := s.version(ctx, tx)
		if err != nil {
			return err
		}
		all := migrations()
		for _, m := range all[min(version, len(all)):] { // another process may have been faster
			if _, err := tx.ExecContext(ctx, m); err != nil {
				return s.wrap(err)
			}
		}
		mark := fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", applicationID, len(all))
		_, err = tx.ExecContext(ctx, mark)
		return s.wrap(err)
	})
}

// errOlder is check's error for a file that needs migrating.
var errOlder = errors.New("the store was written by an older version of tare, which cannot be changed here")

// check reports whether the file is a store of the current version. It changes
// nothing.
func (s *Store) check(ctx context.Context) error {
	version, err := s.version(ctx, s.db)
	switch current := len(migrations()); {
	case err != nil:
		return err
	case version > current:
		return s.wrap(fmt.Errorf("%w (format %d, this one knows up to %d)", ErrVersion, version, current))
	case version < current:
		return s.wrap(errOlder)
	}
	return nil
}

// version returns the version of the store, 0 for an empty file.
func (s *Store) version(ctx context.Context, q querier) (int, error) {
	var application, version, tables int
	err := q.QueryRowContext(ctx, `SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema)
		FROM pragma_application_id, pragma_user_version`).Scan(&application, &version, &tables)
	switch {
	case err != nil:
		return 0, s.wrap(err)
	case application == 0 && version == 0 && tables == 0:
		return 0, nil
	case application != applicationID:
		return 0, s.wrap(fmt.Errorf("%w (it is another SQLite file)", ErrNotStore))
	}
	return version, nil
}
