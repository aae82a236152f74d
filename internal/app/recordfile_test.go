package app

import (
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/analysis/analysistest"
	"github.com/tare-bench/tare/internal/store/record"
)

// samplesIn counts the samples of the run in a stream, which has to be whole.
func samplesIn(t *testing.T, r io.Reader) (n int) {
	t.Helper()
	d := record.NewDecoder(r)
	for {
		e, err := d.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e.Sample != nil {
			n++
		}
	}
	if d.Truncated() {
		t.Error("the records end within a line")
	}
	return n
}

// A disk that becomes full loses no trial: the file has whole lines, and the one that could not be written comes to
// who follows the file.
func TestRecordsOnFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may mount a file system")
	}
	dir := t.TempDir()
	if err := unix.Mount("tare-test", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	run := analysistest.Run(analysistest.Shape{Seed: 1, Blocks: 300, Cells: []analysistest.Cell{{Name: "a", Factor: 1}}})
	f := newRecordFile(filepath.Join(dir, "run.jsonl"))
	w, err := f.Create(t.Context(), run.Header)
	measured := 0
	for i := 0; err == nil && i < len(run.Samples); i++ {
		err = w.Append(t.Context(), run.Samples[i])
		measured++
	}
	if !errors.Is(err, syscall.ENOSPC) || measured < 2 {
		t.Fatalf("after %d trials: %v, want a full disk", measured, err)
	}
	ended := make(chan struct{})
	close(ended)
	got := httptest.NewRecorder()
	if err := f.stream(t.Context(), got, ended); err != nil {
		t.Fatal(err)
	}
	if n := samplesIn(t, got.Body); n != measured {
		t.Errorf("%d trials are sent, want all %d", n, measured)
	}
	file, err := os.Open(f.path)
	if err != nil {
		t.Fatal(err)
	}
	if n := samplesIn(t, file); n != measured-1 {
		t.Errorf("%d trials are in the file, want %d", n, measured-1)
	}
	if err := errors.Join(file.Close(), f.close()); err != nil {
		t.Error(err)
	}
}
