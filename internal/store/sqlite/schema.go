package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// applicationID is "tare" in ASCII. It is written into the file, to distinguish a store from other
// SQLite files.
const applicationID = 0x74617265

// format is the version of the schema, and the only format that is written.
const format = 7

// formatSix is the format before runs had names. It is read if it cannot be written.
const formatSix = 6

const schema = `
CREATE TABLE runs (
	number    INTEGER PRIMARY KEY,
	id        TEXT NOT NULL UNIQUE,
	began     TEXT NOT NULL,       -- as timeLayout, so that it sorts
	header    TEXT NOT NULL,       -- JSON, as in docs/format.md
	ended     TEXT,                -- JSON of the end; NULL while incomplete
	sum       INTEGER,             -- of id, began and header; this and the sums below as sum makes them
	ended_sum INTEGER              -- of id, ended and the number of samples
) STRICT;
CREATE INDEX runs_by_time ON runs (began, id);
` + fromSix + `

-- What engines applied is the same in nearly all samples of a cell.
CREATE TABLE applied (
	number INTEGER PRIMARY KEY,
	json   TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE samples (
	run           INTEGER NOT NULL REFERENCES runs,
	seq           INTEGER NOT NULL,
	block         INTEGER NOT NULL,
	cell          INTEGER NOT NULL,
	began         TEXT,            -- as timeLayout; NULL where the trial never began
	elapsed       INTEGER NOT NULL, -- nanoseconds
	outcome       TEXT NOT NULL,
	operation     TEXT NOT NULL,
	reason        TEXT NOT NULL,
	"values"      BLOB,            -- little-endian float64, parallel to the header's metrics; NULL unless ok
	applied       INTEGER REFERENCES applied,
	notes         TEXT,            -- JSON array; NULL where there are none
	series        BLOB,            -- as encodeSeries writes them; NULL where there are none
	distributions TEXT,            -- JSON array; NULL where there are none
	counted       INTEGER NOT NULL DEFAULT 0, -- nanoseconds between the two looks at the host; 0 if unknown
	parts         TEXT,            -- JSON array; NULL where there are none
	trace         TEXT,            -- JSON object; NULL where there is none
	part_failed   INTEGER NOT NULL DEFAULT 0, -- ok but for a part; it is in no checksum
	sum           INTEGER,         -- of the run's id and the columns, applied as its JSON
	PRIMARY KEY (run, seq)
) STRICT, WITHOUT ROWID;

-- The list shows these two numbers without reading the samples: failed trials, and
-- those that are ok but for a part.
CREATE INDEX failures ON samples (run) WHERE outcome IN ('failed', 'timed-out');
CREATE INDEX failed_parts ON samples (run) WHERE outcome = 'ok' AND part_failed;

CREATE TABLE resumptions (
	number INTEGER PRIMARY KEY,    -- in order
	run    INTEGER NOT NULL REFERENCES runs,
	json   TEXT NOT NULL,
	sum    INTEGER                 -- of the run's id and the JSON
) STRICT;
CREATE INDEX resumptions_of_run ON resumptions (run);

-- How many rows belong to a run, so that one that is gone is missed.
CREATE TABLE counts (
	run         INTEGER PRIMARY KEY REFERENCES runs,
	samples     INTEGER NOT NULL,
	resumptions INTEGER NOT NULL
) STRICT;
CREATE TRIGGER run_counted AFTER INSERT ON runs BEGIN
	INSERT INTO counts VALUES (new.number, 0, 0);
END;
CREATE TRIGGER sample_counted AFTER INSERT ON samples BEGIN
	UPDATE counts SET samples = new.seq + 1 WHERE run = new.run;
END;
CREATE TRIGGER resumption_counted AFTER INSERT ON resumptions BEGIN
	UPDATE counts SET resumptions = resumptions + 1 WHERE run = new.run;
END;
`

// migrateFormat5 converts a file of format 5, in which parts were sentences in the notes, to this format.
// The sentences stay; reading a sample converts them to parts.
const migrateFormat5 = `
ALTER TABLE samples ADD COLUMN parts TEXT;
ALTER TABLE samples ADD COLUMN trace TEXT;
ALTER TABLE samples ADD COLUMN part_failed INTEGER NOT NULL DEFAULT 0;
UPDATE samples SET part_failed = 1 WHERE instr(replace(notes, '\"', ''), '"part-failed: ') > 0;
DROP INDEX partial_failures;
CREATE INDEX failed_parts ON samples (run) WHERE outcome = 'ok' AND part_failed;
`

// fromSix turns a file of format 6, which has no place for names and notes, into one of format 7.
// Programs that know only format 6 can go on if they have the file open.
const fromSix = `
ALTER TABLE runs ADD COLUMN name TEXT;           -- NULL for none
ALTER TABLE runs ADD COLUMN notes TEXT;          -- JSON array; NULL where there are none
ALTER TABLE runs ADD COLUMN written_sum INTEGER; -- of id, name and notes; NULL where both are
CREATE UNIQUE INDEX runs_by_name ON runs (name) WHERE name IS NOT NULL;
`

// timeLayout has a fixed number of digits, so that the texts sort like the times.
const timeLayout = "2006-01-02T15:04:05.000000000Z"

// prepare turns an empty file into a store, and a file of an older format into one of this format.
// It returns an error if the file is not a store.
func (s *Store) prepare(ctx context.Context) error {
	deadline := time.Now().Add(busyTimeout)
	for {
		err := s.tryPrepare(ctx)
		// SQLite does not wait for its busy timeout if that could be a deadlock, as when two
		// processes make the same file.
		if !errors.Is(err, ErrBusy) || time.Now().After(deadline) || ctx.Err() != nil {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (s *Store) tryPrepare(ctx context.Context) error {
	err := s.check(ctx)
	if errors.Is(err, errFormat5) || err == nil && s.format < format {
		return s.upgrade(ctx)
	}
	if !errors.Is(err, errEmpty) {
		return err
	}

	// This comes last, because it changes the file and cannot be part of a transaction.
	if _, err := s.db.ExecContext(ctx, "PRAGMA journal_mode = WAL"); err != nil {
		return s.wrap(err)
	}
	return s.transact(ctx, nil, func(tx *sql.Tx) error {
		version, err := s.version(ctx, tx)
		if s.format = format; err != nil || version != 0 { // another process did it first
			return err
		}
		mark := fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", applicationID, format)
		_, err = tx.ExecContext(ctx, schema+mark)
		return s.wrap(err)
	})
}

// upgrade brings a file of format 5 or 6 to this format.
func (s *Store) upgrade(ctx context.Context) error {
	err := s.transact(ctx, nil, func(tx *sql.Tx) error {
		version, err := s.version(ctx, tx)
		if err != nil {
			return err
		}
		change := ""
		switch version {
		case 5:
			change = migrateFormat5 + fromSix
		case formatSix:
			change = fromSix
		default: // another process was faster
			return nil
		}
		_, err = tx.ExecContext(ctx, change+fmt.Sprintf("PRAGMA user_version = %d", format))
		return s.wrap(err)
	})
	if err == nil {
		s.format = format
	}
	return err
}

// errFormat5 is check's error for a file of a format that must be converted before it is read.
var errFormat5 = errors.New("its format is 5: open it once where tare may write to it, which converts it")

// errEmpty is check's error for an empty file.
var errEmpty = errors.New("the file is empty and cannot be written")

// check reports whether the file is a store that can be read. It changes nothing.
func (s *Store) check(ctx context.Context) error {
	version, err := s.version(ctx, s.db)
	switch {
	case err != nil:
		return err
	case version == 0:
		return s.wrap(errEmpty)
	case version == 5:
		return s.wrap(errFormat5)
	case version < formatSix:
		return s.wrap(fmt.Errorf("%w (its format is %d, this tare reads %d)", ErrOlder, version, format))
	case version > format:
		return s.wrap(fmt.Errorf("%w (its format is %d, this tare reads %d)", ErrVersion, version, format))
	}
	s.format = version
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
		return 0, s.wrap(fmt.Errorf("%w (it is an SQLite file of another program)", ErrNotStore))
	}
	return version, nil
}
