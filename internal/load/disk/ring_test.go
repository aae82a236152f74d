package disk

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"
)

// testFile makes a file of blocks of known content, opened for direct I/O
// where the file system can.
func testFile(t *testing.T, blocks, block int) *file {
	t.Helper()
	p := Plan{Dir: t.TempDir(), Size: int64(blocks * block), Block: block, Direct: Auto}
	f, err := create(p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.remove)
	if err := f.fill(p.Size); err != nil {
		t.Fatal(err)
	}
	return f
}

// content is what the file holds, by another way than its own.
func (f *file) content(t *testing.T) []byte {
	t.Helper()
	b, err := os.ReadFile(f.path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// rings are the ways that have a ring, where they are allowed.
func rings(t *testing.T) map[string]func(work) (ring, error) {
	t.Helper()
	all := map[string]func(work) (ring, error){
		Uring:  func(w work) (ring, error) { return openUring(w) },
		Libaio: func(w work) (ring, error) { return openAIO(w) },
	}
	if err := canOpen(openUring)(); err != nil {
		t.Logf("without io_uring: %v", err)
		delete(all, Uring)
	}
	return all
}

// all has requests done, each once, and returns the slots in the order of
// completion.
func all(t *testing.T, r ring, block int, offsets []int64) []int {
	t.Helper()
	for slot, offset := range offsets {
		if err := r.submit(slot, offset); err != nil {
			t.Fatal(err)
		}
	}
	var slots []int
	for done := make([]completion, len(offsets)); len(slots) < len(offsets); {
		n, err := r.wait(done)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range done[:n] {
			if err := c.check(block); err != nil {
				t.Fatal(err)
			}
			slots = append(slots, c.slot)
		}
	}
	return slots
}

// TestRings has each ring write blocks and read them back, and looks at the
// file by another way in between.
func TestRings(t *testing.T) {
	const depth, block = 16, 4096
	for name, open := range rings(t) {
		t.Run(name, func(t *testing.T) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			f := testFile(t, 64, block)
			slots, free, err := newSlots(depth, block)
			if err != nil {
				t.Fatal(err)
			}
			defer free()
			var offsets []int64
			for i := range depth {
				offsets = append(offsets, int64(i*37%64)*block)
			}
			var wrote [][]byte
			for _, s := range slots {
				wrote = append(wrote, bytes.Clone(s))
			}
			for _, write := range []bool{true, false} {
				r, err := open(work{fd: f.fd(), write: write, slots: slots})
				if err != nil {
					t.Fatal(err)
				}
				for range 3 { // the rings go round
					got := all(t, r, block, offsets)
					slices.Sort(got)
					if !slices.Equal(got, sequence(depth)) {
						t.Fatalf("completed: %v, want each of %d once", got, depth)
					}
				}
				if err := r.close(); err != nil {
					t.Fatal(err)
				}
				content := f.content(t)
				for i, offset := range offsets {
					if !bytes.Equal(content[offset:offset+block], wrote[i]) {
						t.Errorf("write %t: block at %d of the file is not what was written", write, offset)
					}
					if !bytes.Equal(slots[i], wrote[i]) {
						t.Errorf("write %t: slot %d is not what the file has at %d", write, i, offset)
					}
					clear(slots[i]) // to be read
				}
			}
		})
	}
}

func sequence(n int) (s []int) {
	for i := range n {
		s = append(s, i)
	}
	return s
}

// TestWrites runs each way for a moment, and checks that whole blocks were
// written at their places and nothing else was: every block of the file is
// what it was filled with or what one of the slots had, but for its stamps.
func TestWrites(t *testing.T) {
	const blocks, block, depth = 256, 8192, 8
	for _, q := range queues() {
		if err := q.check(); err != nil {
			t.Logf("without %s: %v", q.name, err)
			continue
		}
		for _, random := range []bool{true, false} {
			f := testFile(t, blocks, block)
			slots, free, err := newSlots(depth, block)
			if err != nil {
				t.Fatal(err)
			}
			known := map[string]bool{}
			for _, s := range slots {
				known[unstamped(s)] = true
			}
			w := work{fd: f.fd(), write: true, random: random, size: blocks * block, slots: slots}
			tally := &tally{to: 200 * time.Millisecond}
			tally.latency = newTally(Plan{}).latency
			if err := q.run(w, tally); err != nil {
				t.Fatalf("%s, random %t: %v", q.name, random, err)
			}
			free()
			n := tally.latency.Count()
			if n == 0 {
				t.Errorf("%s, random %t: nothing completed", q.name, random)
			}
			changed := 0
			for b := range slices.Chunk(f.content(t), block) {
				if known[unstamped(b)] {
					changed++
				}
			}
			// In order, each pass over the file changes all of it; a thread does so with
			// its part, and one of them did no less than its share.
			want := min(blocks, int(n))
			if q.name == Threads {
				want = min(blocks/depth, int(n)/depth)
			}
			if !random && changed < want {
				t.Errorf("%s: %d of %d blocks were written, want %d", q.name, changed, blocks, want)
			}
			if changed == 0 {
				t.Errorf("%s, random %t: no block of the file is one that was written", q.name, random)
			}
		}
	}
}

// unstamped is a block without what stamp changes.
func unstamped(b []byte) string {
	b = bytes.Clone(b)
	for i := 0; i < len(b); i += page {
		clear(b[i : i+8])
	}
	return string(b)
}

// TestReads runs each way on a file of one block, and finds it in every buffer.
func TestReads(t *testing.T) {
	const block, depth = 4096, 4
	for _, q := range queues() {
		if err := q.check(); err != nil {
			t.Logf("without %s: %v", q.name, err)
			continue
		}
		f := testFile(t, 1, block)
		slots, free, err := newSlots(depth, block)
		if err != nil {
			t.Fatal(err)
		}
		defer free()
		tally := &tally{to: 20 * time.Millisecond, latency: newTally(Plan{}).latency}
		if err := q.run(work{fd: f.fd(), random: true, size: block, slots: slots}, tally); err != nil {
			t.Fatalf("%s: %v", q.name, err)
		}
		for i, s := range slots {
			if !bytes.Equal(s, f.content(t)) {
				t.Errorf("%s: buffer %d is not what the file holds", q.name, i)
			}
		}
	}
}

// TestFailedRequest reads behind the end of a file and from none.
func TestFailedRequest(t *testing.T) {
	for _, q := range queues() {
		if q.check() != nil {
			continue
		}
		slots, free, err := newSlots(2, 4096)
		if err != nil {
			t.Fatal(err)
		}
		defer free()
		empty, err := os.Create(filepath.Join(t.TempDir(), "empty"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = empty.Close() }()
		for _, fd := range []int{int(empty.Fd()), 1 << 20} {
			tally := &tally{to: time.Minute, latency: newTally(Plan{}).latency}
			if err := q.run(work{fd: fd, size: 1 << 20, slots: slots}, tally); err == nil {
				t.Errorf("%s: reading file %d succeeded", q.name, fd)
			}
		}
	}
}
