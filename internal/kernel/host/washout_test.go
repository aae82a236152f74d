package host

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/bench"
)

// washout returns a Washout of a tree with these files, and a function that
// rewrites one.
func washout(t *testing.T) (*Washout, func(running, blocked, dirty, writeback string)) {
	t.Helper()
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "proc"), 0o755); err != nil {
		t.Fatal(err)
	}
	set := func(running, blocked, dirty, writeback string) {
		t.Helper()
		err := errors.Join(
			os.WriteFile(filepath.Join(root, "proc/stat"),
				[]byte("procs_running "+running+"\nprocs_blocked "+blocked+"\n"), 0o644),
			os.WriteFile(filepath.Join(root, "proc/meminfo"),
				[]byte("Dirty: "+dirty+" kB\nWriteback: "+writeback+" kB\n"), 0o644),
		)
		if err != nil {
			t.Error(err)
		}
	}
	set("1", "0", "100", "0")
	w, err := OpenWashout(root)
	if err != nil {
		t.Fatal(err)
	}
	w.sync = func() { t.Error("synced without need") }
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w, set
}

func TestSettleQuiet(t *testing.T) {
	w, _ := washout(t)
	if waited, settled := w.Settle(t.Context(), time.Minute); !settled || waited < firstPause {
		t.Errorf("Settle = %v, %v, want settled after at least %v", waited, settled, firstPause)
	}
}

func TestSettleGivesUp(t *testing.T) {
	const limit = 20 * time.Millisecond
	for _, busy := range [][4]string{{"2", "0", "0", "0"}, {"1", "1", "0", "0"}, {"1", "0", "0", "8"}} {
		w, set := washout(t)
		set(busy[0], busy[1], busy[2], busy[3])
		if waited, settled := w.Settle(t.Context(), limit); settled || waited < limit {
			t.Errorf("%v: Settle = %v, %v, want not settled after %v", busy, waited, settled, limit)
		}
	}
}

func TestSettleSyncsOnce(t *testing.T) {
	w, set := washout(t)
	synced := make(chan struct{}, 1)
	w.sync = func() {
		synced <- struct{}{} // a second one would block, and be missed below
		set("1", "0", "120", "0")
	}
	set("1", "0", "200000", "0")
	if _, settled := w.Settle(t.Context(), time.Minute); !settled {
		t.Error("not settled after the sync")
	}
	<-synced
}

func TestSettleEndsWithContext(t *testing.T) {
	w, set := washout(t)
	set("9", "0", "0", "0")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, settled := w.Settle(ctx, time.Hour); settled {
		t.Error("settled after the context's end")
	}
}

func TestSettleUnknown(t *testing.T) {
	root := t.TempDir()
	err := errors.Join(os.Mkdir(root+"/proc", 0o755), os.WriteFile(root+"/proc/stat", []byte("ctxt 1\n"), 0o644))
	if err != nil {
		t.Fatal(err)
	}
	w, err := OpenWashout(root)
	if err != nil {
		t.Fatal(err)
	}
	if _, settled := w.Settle(t.Context(), time.Minute); !settled {
		t.Error("what the machine does not tell is waited for")
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if _, err := OpenWashout(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("OpenWashout of an empty tree: %v", err)
	}
}

func TestDropCaches(t *testing.T) {
	name := filepath.Join(t.TempDir(), "drop_caches")
	if err := dropCaches(t.Context(), name); !errors.Is(err, bench.ErrUnsupported) {
		t.Errorf("without the file: %v, want ErrUnsupported", err)
	}
	if err := os.WriteFile(name, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := dropCaches(t.Context(), name); err != nil {
		t.Error(err)
	}
	if got, err := os.ReadFile(name); string(got) != "3" || err != nil {
		t.Errorf("wrote %q, %v, want 3", got, err)
	}
}
