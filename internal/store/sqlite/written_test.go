package sqlite_test

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/store/record"
	"github.com/tare-bench/tare/internal/store/sqlite"
	"github.com/tare-bench/tare/internal/store/storetest"
)

// A name or a note that is not what was stored is told, and hides nothing that was measured.
func TestDamagedWritingIsTold(t *testing.T) {
	for _, change := range []string{
		"UPDATE runs SET name = 'other'",
		"UPDATE runs SET name = NULL",
		"UPDATE runs SET notes = replace(notes, 'noisy', 'quiet')",
		"UPDATE runs SET notes = NULL",
		"UPDATE runs SET written_sum = NULL",
		"UPDATE runs SET name = NULL, notes = NULL",
	} {
		path := filepath.Join(t.TempDir(), "tare.db")
		s := open(t, path)
		run := storetest.Example("a", 8)
		run.Header.Name, run.Header.Remarks = "mine", []bench.Remark{{Time: run.Header.Began, Text: "a noisy neighbour"}}
		if err := record.Copy(t.Context(), s, run); err != nil {
			t.Fatal(err)
		}
		if c := s.CheckRun(t.Context(), "a"); c.Err != nil || c.Written != nil || c.Samples != 8 {
			t.Errorf("before: %+v", c)
		}
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Exec(change); err != nil {
			t.Fatal(err)
		}
		closeOrFail(t, db)
		if c := s.CheckRun(t.Context(), "a"); c.Err != nil || !errors.Is(c.Written, sqlite.ErrDamaged) {
			t.Errorf("%s: checked: %+v", change, c)
		}
		got, err := s.Open(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		told := len(got.Header.Remarks) == 1 && strings.Contains(got.Header.Remarks[0].Text, "damaged")
		if len(got.Samples) != 8 || got.Header.Name != "" || !told {
			t.Errorf("%s: read %v, %v", change, got, err)
		}
		if err := s.Rename(t.Context(), "a", "next"); !errors.Is(err, sqlite.ErrDamaged) {
			t.Errorf("%s: written over: %v", change, err)
		}
		if err := s.Remove(t.Context(), "a"); err != nil {
			t.Errorf("%s: %v", change, err)
		}
		closeOrFail(t, s)
	}
}

// The room of removed runs is given back, also that of what was applied to them alone, and
// a writer goes on beside that.
func TestRemovedGivesRoomBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tare.db")
	s := open(t, path)
	if err := record.Copy(t.Context(), s, wide("large", 3000)); err != nil {
		t.Fatal(err)
	}
	closeOrFail(t, s) // which merges the log into the file
	before := size(t, path)
	s = open(t, path)
	small := storetest.Example("small", 6)
	small.Resumptions, small.End = nil, nil
	for i := range small.Samples {
		small.Samples[i].Applied = &bench.Applied{Runtime: "only here"}
	}
	w, err := s.Create(t.Context(), small.Header)
	if err != nil {
		t.Fatal(err)
	}
	add := func(samples ...bench.Sample) {
		t.Helper()
		for _, sample := range samples {
			if err := w.Append(t.Context(), sample); err != nil {
				t.Fatal(err)
			}
		}
	}
	add(small.Samples[:2]...)
	if err := errors.Join(s.Remove(t.Context(), "large"), s.Compact(t.Context())); err != nil {
		t.Fatal(err)
	}
	add(small.Samples[2:]...)
	closeOrFail(t, w)
	wantRun(t, s, small)
	closeOrFail(t, s)
	if after := size(t, path); after > before/10 {
		t.Errorf("%d bytes of %d are left", after, before)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer closeOrFail(t, db)
	n := 0
	if err := db.QueryRow("SELECT count(*) FROM applied").Scan(&n); err != nil || n != 1 {
		t.Errorf("%d rows of what was applied (%v), want the one that is used", n, err)
	}
}

// What was applied may be removed before the first sample that refers to it is stored, and its
// number be given to something else.
func TestAppliedIsStoredAgain(t *testing.T) {
	for _, reused := range []bool{false, true} {
		for name, add := range map[string]func(w bench.RunWriter, samples ...bench.Sample) error{
			"one by one": func(w bench.RunWriter, samples ...bench.Sample) (err error) {
				for _, sample := range samples {
					err = errors.Join(err, w.Append(t.Context(), sample))
				}
				return err
			},
			"together": func(w bench.RunWriter, samples ...bench.Sample) error {
				return w.(record.Batcher).AppendAll(t.Context(), samples)
			},
		} {
			path := filepath.Join(t.TempDir(), "tare.db")
			s := open(t, path)
			run := storetest.Example("a", 4)
			run.Resumptions, run.End = nil, nil
			for i := range run.Samples {
				run.Samples[i].Applied = &bench.Applied{Runtime: "one"}
			}
			w, err := s.Create(t.Context(), run.Header)
			if err != nil {
				t.Fatal(err)
			}
			run.Samples[0].Applied = nil
			first := run.Samples[0]
			first.Applied = run.Samples[1].Applied
			if err := w.Append(t.Context(), first); err != nil {
				t.Fatal(err)
			}
			db, err := sql.Open("sqlite", path)
			if err != nil {
				t.Fatal(err)
			}
			// As if another process had removed it between its row and the sample's.
			change := "UPDATE samples SET applied = NULL; DELETE FROM applied;"
			if reused {
				change += `INSERT INTO applied (json) VALUES ('{"runtime":"another"}')`
			}
			if _, err := db.Exec(change); err != nil {
				t.Fatal(err)
			}
			closeOrFail(t, db)
			if err := add(w, run.Samples[1:]...); err != nil {
				t.Errorf("reused %v, %s: %v", reused, name, err)
			}
			if c := s.CheckRun(t.Context(), "a"); len(c.Damaged) != 1 || c.Samples != 4 { // the first, changed above
				t.Errorf("reused %v, %s: %+v, want one damaged sample", reused, name, c)
			}
			closeOrFail(t, w)
			closeOrFail(t, s)
		}
	}
}

// Runs can be imported while others are removed and the file is made smaller.
func TestAppendAllBesideCompact(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tare.db")
	s, other := open(t, path), open(t, path)
	defer closeOrFail(t, s)
	defer closeOrFail(t, other)
	stop, done := make(chan struct{}), make(chan error)
	go func() {
		var err error
		for err == nil {
			select {
			case <-stop:
				done <- nil
				return
			default:
				err = other.Compact(t.Context())
			}
		}
		done <- err
	}()
	for n := range 10 {
		run := storetest.Example("run"+strconv.Itoa(n), 4)
		run.Resumptions, run.End = nil, nil
		for i := range run.Samples {
			run.Samples[i].Applied = &bench.Applied{Runtime: strconv.Itoa(n), Network: strconv.Itoa(i)}
		}
		if err := record.Copy(t.Context(), s, run); err != nil {
			t.Error(err)
			break
		}
		wantRun(t, s, run)
	}
	close(stop)
	if err := <-done; err != nil {
		t.Errorf("compact: %v", err)
	}
}

func size(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}
