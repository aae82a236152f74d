package sqlite_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/store/record"
	"github.com/tare-bench/tare/internal/store/sqlite"
	"github.com/tare-bench/tare/internal/store/storetest"
)

// fill returns a path in a new store with one run of n samples.
func fill(t *testing.T, n int) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "tare.db")
	s := open(t, path)
	if err := record.Copy(t.Context(), s, storetest.Example("a", n)); err != nil {
		t.Fatal(err)
	}
	closeOrFail(t, s)
	return path
}

func closeOrFail(tb testing.TB, c io.Closer) {
	tb.Helper()
	if err := c.Close(); err != nil {
		tb.Error(err)
	}
}

// wantRun checks that the store has the run, whole.
func wantRun(t *testing.T, s *sqlite.Store, want *bench.Run) {
	t.Helper()
	got, err := s.Open(t.Context(), want.Header.ID)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got, cmpopts.EquateNaNs(), imported()); d != "" {
		t.Errorf("run %s (-want +got):\n%.4000s", want.Header.ID, d)
	}
}

// wantPrefix checks that a run is an incomplete prefix of what was written,
// and returns its length.
func wantPrefix(t *testing.T, s *sqlite.Store, whole *bench.Run) int {
	t.Helper()
	got, err := s.Open(t.Context(), whole.Header.ID)
	if err != nil {
		t.Fatal(err)
	}
	want := &bench.Run{Header: whole.Header, Samples: whole.Samples[:len(got.Samples)], Resumptions: got.Resumptions}
	if d := cmp.Diff(want, got, cmpopts.EquateNaNs(), cmpopts.EquateEmpty(), imported()); d != "" {
		t.Errorf("run %s (-want +got):\n%.4000s", whole.Header.ID, d)
	}
	return len(got.Samples)
}

func TestOnlyTheOwnerCanRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "dir", "tare.db")
	s := open(t, path)
	defer closeOrFail(t, s)
	if _, err := s.Create(t.Context(), storetest.Example("a", 1).Header); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]fs.FileMode{
		path: 0o600, path + "-wal": 0o600, path + "-shm": 0o600, filepath.Dir(path): 0o700 | fs.ModeDir,
	} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != want {
			t.Errorf("%s has mode %v, want %v", name, info.Mode(), want)
		}
	}
}

func TestPathIsTakenLiterally(t *testing.T) {
	for _, name := range []string{"a?mode=memory", "a#b", "a%20b", "a b", "日本", "'", "file:a", ":memory:"} {
		path := filepath.Join(t.TempDir(), name)
		s := open(t, path)
		if err := record.Copy(t.Context(), s, storetest.Example("a", 1)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		closeOrFail(t, s)
		if info, err := os.Stat(path); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}

func TestWhatIsNoStoreIsRefusedAndKept(t *testing.T) {
	foreign := func(t *testing.T, path string, statements ...string) {
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range statements {
			if _, err := db.Exec(s); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name string
		make func(t *testing.T, path string)
		want error
	}{
		{"text", func(t *testing.T, path string) { write(t, path, []byte(strings.Repeat("not a database\n", 1000))) }, sqlite.ErrNotStore},
		{"short text", func(t *testing.T, path string) { write(t, path, []byte("hi")) }, sqlite.ErrNotStore},
		{"directory", func(t *testing.T, path string) {
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		}, syscall.EISDIR},
		{"another program's database", func(t *testing.T, path string) { foreign(t, path, "CREATE TABLE bookmarks (x)") }, sqlite.ErrNotStore},
		{"another program's empty database", func(t *testing.T, path string) { foreign(t, path, "PRAGMA application_id = 7") }, sqlite.ErrNotStore},
		{"newer store", func(t *testing.T, path string) {
			s := open(t, path)
			closeOrFail(t, s)
			foreign(t, path, "PRAGMA user_version = 99")
		}, sqlite.ErrVersion},
		{"older store", func(t *testing.T, path string) {
			closeOrFail(t, open(t, path))
			foreign(t, path, "PRAGMA user_version = 4")
		}, sqlite.ErrOlder},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "tare.db")
			tt.make(t, path)
			before, _ := os.ReadFile(path) // a directory has no text to compare
			s, err := sqlite.Open(t.Context(), path)
			if err == nil {
				closeOrFail(t, s)
			}
			if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("error %v, want one that is %v and names the file", err, tt.want)
			}
			if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
				t.Error("the file was changed")
			}
		})
	}
}

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Wherever a file is damaged, nothing is read that was not written, and
// nothing panics.
func TestDamagedFile(t *testing.T) {
	path := fill(t, 200)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	step := 511
	if testing.Short() {
		step *= 5
	}
	for at := 0; at < len(whole); at += step {
		b := bytes.Clone(whole)
		copy(b[at:], bytes.Repeat([]byte{0xa5}, 64))
		damaged := filepath.Join(t.TempDir(), "tare.db")
		write(t, damaged, b)
		if err := readAll(t.Context(), damaged); err != nil {
			refused++
		}
	}
	if refused == 0 {
		t.Error("no damage was noticed")
	}
	for cut := 0; cut < len(whole); cut += 4096 {
		damaged := filepath.Join(t.TempDir(), "tare.db")
		write(t, damaged, whole[:cut])
		if err := readAll(t.Context(), damaged); err == nil && cut > 0 {
			t.Errorf("a file cut at %d of %d reads well", cut, len(whole))
		}
	}
}

func readAll(ctx context.Context, path string) (err error) {
	s, err := sqlite.Open(ctx, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	for r, err := range s.Runs(ctx) {
		if err != nil {
			return err
		}
		if _, err := s.Open(ctx, r.Header.ID); err != nil {
			return err
		}
	}
	return nil
}

// A run that cannot be read does not hide the others in the list.
func TestDamagedRunDoesNotHideOthers(t *testing.T) {
	path := fill(t, 5)
	s := open(t, path)
	defer closeOrFail(t, s)
	if err := record.Copy(t.Context(), s, storetest.Example("b", 5)); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer closeOrFail(t, db)
	for _, change := range []string{
		"UPDATE runs SET header = '{' WHERE id = 'b'",
		"UPDATE runs SET header = '{}' WHERE id = 'b'",
		"UPDATE runs SET header = (SELECT header FROM runs WHERE id = 'a'), ended = '[]' WHERE id = 'b'",
	} {
		if _, err := db.Exec(change); err != nil {
			t.Fatal(err)
		}
		var good, bad int
		for _, err := range s.Runs(t.Context()) {
			if err == nil {
				good++
			} else if bad++; !errors.Is(err, sqlite.ErrDamaged) {
				t.Errorf("%s: %v", change, err)
			}
		}
		if good != 1 || bad != 1 {
			t.Errorf("%s: %d good and %d bad runs, want one each", change, good, bad)
		}
		if ids, err := s.Find(t.Context(), "", 0); err != nil || !slices.Equal(ids, []string{"b", "a"}) {
			t.Errorf("%s: found %q, %v, want also the run that cannot be read", change, ids, err)
		}
	}
	if _, err := db.Exec("PRAGMA foreign_keys = OFF; DELETE FROM runs WHERE id = 'b'"); err != nil {
		t.Fatal(err)
	}
	if ids, err := s.Find(t.Context(), "", 1); !errors.Is(err, sqlite.ErrDamaged) || !slices.Equal(ids, []string{"a"}) {
		t.Errorf("without the newest run: found %q, %v, want a, and that another is gone", ids, err)
	}
}

// isRowDamage changes a fresh store of one run with n samples behind tare's back.
func isRowDamage(t *testing.T, n int, change string) (path string) {
	t.Helper()
	path = fill(t, n)
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer closeOrFail(t, db)
	if _, err := db.Exec(change); err != nil {
		t.Fatal(err)
	}
	return path
}

// A sample that is not what was stored is named, and the others are read.
func TestDamagedSampleIsNamed(t *testing.T) {
	for _, tt := range []struct {
		change string
		gone   []int
	}{
		{`UPDATE samples SET "values" = x'00' WHERE seq = 0`, []int{0}},
		{`UPDATE samples SET "values" = zeroblob(length("values")) WHERE seq = 0`, []int{0}},
		{"UPDATE samples SET began = 'noon' WHERE seq = 1", []int{1}},
		{"UPDATE samples SET elapsed = elapsed + 1 WHERE seq = 1", []int{1}},
		{"UPDATE samples SET notes = '{' WHERE seq = 0", []int{0}},
		{"UPDATE samples SET cell = 9 WHERE seq = 0", []int{0}},
		{"UPDATE samples SET reason = reason || 'x' WHERE seq IN (1, 3)", []int{1, 3}},
		{"UPDATE samples SET sum = NULL WHERE seq = 2", []int{2}},
		{"UPDATE samples SET seq = seq + 100 WHERE seq = 2", []int{2}},
		{"UPDATE samples SET seq = 104 WHERE seq = 4", []int{4}},
		{"UPDATE samples SET series = x'0161' WHERE seq = 0", []int{0}},
		{`UPDATE samples SET trace = '{"left_out":1}' WHERE seq = 0`, []int{0}},
		{"UPDATE samples SET series = x'ffffffffffffffffff01' WHERE seq = 0", []int{0}},
		{"DELETE FROM samples WHERE seq = 0", []int{0}},
		{"DELETE FROM samples WHERE seq >= 3", []int{3, 4}},
		{"DELETE FROM samples", []int{0, 1, 2, 3, 4}},
	} {
		s := open(t, isRowDamage(t, 5, tt.change))
		got, err := s.Open(t.Context(), "a")
		if err != nil {
			t.Errorf("%s: %v", tt.change, err)
			continue
		}
		want := storetest.Example("a", 5)
		for _, seq := range tt.gone {
			reason := got.Samples[seq].Reason
			if place := fmt.Sprintf("samples of run number 1, row %d", seq); !strings.Contains(reason, place) {
				t.Errorf("%s: the reason is %q, without %q", tt.change, reason, place)
			}
			want.Samples[seq] = bench.Sample{
				Trial: planned(&want.Header, seq), Outcome: bench.Failed, Reason: reason, Notes: []string{bench.NoteDamaged},
			}
		}
		if d := cmp.Diff(want, got, cmpopts.EquateNaNs(), imported()); d != "" {
			t.Errorf("%s (-want +got):\n%.2000s", tt.change, d)
		}
		closeOrFail(t, s)
	}
}

// A trace that is gone is missed.
func TestLostTraceIsMissed(t *testing.T) {
	s := open(t, isRowDamage(t, 7, "UPDATE samples SET trace = NULL"))
	defer closeOrFail(t, s)
	got, err := s.Open(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	for i, sample := range got.Samples {
		if lost := slices.Contains(sample.Notes, bench.NoteDamaged); lost != (i == 6) {
			t.Errorf("sample %d is damaged: %v", i, lost)
		}
	}
}

// planned is the trial that the schedule of the example has at a place: two cells
// in each block.
func planned(h *bench.Header, seq int) bench.Trial {
	return bench.Trial{Seq: seq, Block: seq/2 - h.Plan.Warmup, Cell: h.Schedule[seq/2][seq%2]}
}

// What is not a sample has nothing that could stand in its place.
func TestDamagedRunIsRefused(t *testing.T) {
	for _, change := range []string{
		"UPDATE resumptions SET json = '['", "UPDATE resumptions SET json = replace(json, '2026', '2025')",
		"DELETE FROM resumptions",
		"UPDATE runs SET ended = NULL", "UPDATE runs SET ended = replace(ended, '2026', '2025')",
		"UPDATE runs SET ended_sum = NULL",
		"UPDATE runs SET header = replace(header, '2026', '2025')", "UPDATE runs SET began = '2025'",
		"UPDATE runs SET sum = NULL",
		"UPDATE counts SET samples = 4", "UPDATE counts SET samples = 0; UPDATE runs SET ended = NULL, ended_sum = NULL",
		"DELETE FROM counts", "PRAGMA foreign_keys = 0; DELETE FROM runs",
	} {
		if err := readAll(t.Context(), isRowDamage(t, 5, change)); !errors.Is(err, sqlite.ErrDamaged) {
			t.Errorf("%s: %v, want ErrDamaged", change, err)
		}
	}
}

// A store in which one bit is another one gives what was stored, or says that it
// does not: it never gives something else.
func TestFlippedBitsAreSeen(t *testing.T) {
	path := fill(t, 12)
	s := open(t, path)
	incomplete := storetest.Example("b", 12)
	incomplete.End = nil
	incomplete.Header.Name = "interrupted"
	incomplete.Header.Remarks = []bench.Remark{
		{Time: incomplete.Header.Began, Text: strings.Repeat("a noisy neighbour ", 100)},
	}
	if err := record.Copy(t.Context(), s, incomplete); err != nil {
		t.Fatal(err)
	}
	closeOrFail(t, s)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"a": exported(t, path, "a"), "b": exported(t, path, "b")}
	flips := 400
	if testing.Short() {
		flips /= 5
	}
	if n, err := strconv.Atoi(os.Getenv("TARE_TEST_FLIPS")); err == nil {
		flips = n
	}
	random := rand.New(rand.NewPCG(1, 2))
	seen := 0
	for range flips {
		at, bit := random.IntN(len(whole)), random.IntN(8)
		broken := bytes.Clone(whole)
		broken[at] ^= 1 << bit
		other := filepath.Join(t.TempDir(), "tare.db")
		write(t, other, broken)
		for id, text := range want {
			switch got := exported(t, other, id); {
			case strings.Contains(got, "ERROR: "):
				seen++
			case got != text:
				t.Errorf("bit %d of byte %d changes run %s without a word:\n%.2000s", bit, at, id, cmp.Diff(text, got))
			}
		}
	}
	t.Logf("of %d flips, %d were seen in one of two runs", flips, seen)
	if seen == 0 {
		t.Error("nothing was seen at all")
	}
}

// exported is what an export of a run gives, or how it says that something is wrong.
func exported(t *testing.T, path, id string) string {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path)
	if err != nil {
		return "ERROR: " + err.Error()
	}
	defer func() { _ = s.Close() }() // of a damaged file
	run, err := s.Open(t.Context(), id)
	if err != nil {
		return "ERROR: " + err.Error()
	}
	for _, sample := range run.Samples {
		if slices.Contains(sample.Notes, bench.NoteDamaged) {
			return "ERROR: " + sample.Reason
		}
	}
	for _, r := range run.Header.Remarks {
		if strings.Contains(r.Text, "is damaged") {
			return "ERROR: " + r.Text
		}
	}
	var b strings.Builder
	if err := record.Write(&b, run); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// mountTmpfs mounts a small file system and returns its directory.
func mountTmpfs(t *testing.T, options string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small file system")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestFullDisk(t *testing.T) {
	dir := mountTmpfs(t, "size=512k")
	path := filepath.Join(dir, "tare.db")
	s := open(t, path)
	whole := storetest.Example("a", 10_000)
	w, err := s.Create(t.Context(), whole.Header)
	if err != nil {
		t.Fatal(err)
	}
	stored := 0
	for err == nil {
		if err = w.Append(t.Context(), whole.Samples[stored]); err == nil {
			stored++
		}
	}
	if !errors.Is(err, sqlite.ErrFull) || !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v, want ErrFull", err)
	}
	check := func(when string, s *sqlite.Store) {
		got, err := s.Open(t.Context(), "a")
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		if len(got.Samples) != stored {
			t.Errorf("%s: %d samples are stored, want %d", when, len(got.Samples), stored)
		}
	}
	check("on the full disk", s)
	other := open(t, path)
	check("for another process", other)
	closeOrFail(t, other)
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	closeOrFail(t, s)
	s = open(t, path)
	check("opened again", s)
	closeOrFail(t, s)

	// With room again, the run goes on.
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=64m"); err != nil {
		t.Fatal(err)
	}
	s = open(t, path)
	defer closeOrFail(t, s)
	w, err = s.Resume(t.Context(), "a", bench.Resumption{Time: whole.Header.Began, Seq: stored})
	if err != nil {
		t.Fatal(err)
	}
	defer closeOrFail(t, w)
	if err := w.Append(t.Context(), whole.Samples[stored]); err != nil {
		t.Error(err)
	}
}

// With no room for another byte everything can be read, also what a killed process
// has left in the log.
func TestReadingNeedsNoRoom(t *testing.T) {
	for _, state := range []string{"closed", "killed"} {
		t.Run(state, func(t *testing.T) {
			from := filepath.Join(t.TempDir(), "tare.db")
			s := open(t, from)
			whole := storetest.Example("a", 50)
			if err := record.Copy(t.Context(), s, whole); err != nil {
				t.Fatal(err)
			}
			files := []string{"", "-wal"}
			if state == "closed" {
				closeOrFail(t, s)
				files = files[:1]
			} else {
				defer closeOrFail(t, s)
			}
			dir := mountTmpfs(t, "size=512k")
			path := filepath.Join(dir, "tare.db")
			for _, file := range files {
				b, err := os.ReadFile(from + file)
				if err != nil {
					t.Fatal(err)
				}
				write(t, path+file, b)
			}
			fillUp(t, filepath.Join(dir, "filler"))
			wantOnlyReading(t, path, whole, syscall.ENOSPC)
			if _, err := sqlite.Open(t.Context(), filepath.Join(dir, "new.db")); !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("Open of a new store: %v, want ENOSPC", err)
			}
		})
	}
}

// fillUp writes a file until there is no room any more.
func fillUp(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer closeOrFail(t, f)
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
}

// On a read-only file system everything can be read and nothing written.
func TestReadOnlyFileSystem(t *testing.T) {
	dir := mountTmpfs(t, "size=16m")
	path := filepath.Join(dir, "tare.db")
	s := open(t, path)
	whole := storetest.Example("a", 50)
	if err := record.Copy(t.Context(), s, whole); err != nil {
		t.Fatal(err)
	}
	closeOrFail(t, s)
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	wantOnlyReading(t, path, whole, syscall.EROFS)
	if _, err := sqlite.Open(t.Context(), filepath.Join(dir, "sub", "tare.db")); !errors.Is(err, syscall.EROFS) {
		t.Errorf("Open of a new store: %v, want EROFS", err)
	}
}

// wantOnlyReading checks a store that cannot be written for the given reason.
func wantOnlyReading(t *testing.T, path string, whole *bench.Run, why error) {
	t.Helper()
	s := open(t, path)
	defer closeOrFail(t, s)
	wantRun(t, s, whole)
	n := 0
	for _, err := range s.Runs(t.Context()) {
		if n++; err != nil {
			t.Error(err)
		}
	}
	if n != 1 {
		t.Errorf("%d runs are listed, want 1", n)
	}
	_, err := s.Create(t.Context(), storetest.Example("b", 1).Header)
	if !errors.Is(err, why) || !strings.Contains(err.Error(), path) {
		t.Errorf("Create: %v, want %v and the path", err, why)
	}
	if _, err := s.Resume(t.Context(), "a", whole.Resumptions[0]); !errors.Is(err, why) {
		t.Errorf("Resume: %v, want %v", err, why)
	}
}

// imported is the difference between a run and its copy in a store.
func imported() cmp.Option { return cmpopts.IgnoreFields(bench.Header{}, "Imported") }
