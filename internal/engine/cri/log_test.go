package cri

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
)

// However the bytes come, they are taken apart in the same way.
func TestDemultiplexerByBytes(t *testing.T) {
	const log = "2006-01-02T15:04:05.9Z stdout P a b\n2006-01-02T15:04:05.9Z stderr F \n2006-01-02T15:04:05.9Z " +
		"stdout F:more  c\n"
	var stdout, stderr bytes.Buffer
	d := &demultiplexer{stdout: &stdout, stderr: &stderr}
	if _, err := io.Copy(d, iotest.OneByteReader(strings.NewReader(log))); err != nil {
		t.Fatal(err)
	}
	if err := d.end(); err != nil {
		t.Error(err)
	}
	if stdout.String() != "a b c\n" || stderr.String() != "\n" {
		t.Errorf("stdout %q, stderr %q", stdout.String(), stderr.String())
	}
}

func TestDemultiplexerRefuses(t *testing.T) {
	for _, log := range []string{
		"\n", "T\n", "T stdout\n", "T stdout F\n", "T stdin F text\n", "T stdout X text\n", "T stdout  text\n",
		strings.Repeat("x", maxHeader+1), strings.Repeat(" ", maxHeader),
	} {
		d := &demultiplexer{stdout: io.Discard, stderr: io.Discard}
		if _, err := io.WriteString(d, log); !errors.Is(err, errFormat) {
			t.Errorf("%.40q: error = %v, want errFormat", log, err)
		}
	}
}

// A line without end takes no memory.
func TestDemultiplexerKeepsNoLine(t *testing.T) {
	d := &demultiplexer{stdout: io.Discard, stderr: io.Discard}
	if _, err := io.WriteString(d, "T stdout F "); err != nil {
		t.Fatal(err)
	}
	text := bytes.Repeat([]byte("x"), 64<<10)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 1000 {
		if _, err := d.Write(text); err != nil {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 1<<20 {
		t.Errorf("%d bytes were allocated for a line of 64 MB", grown)
	}
}

func FuzzDemultiplexer(f *testing.F) {
	f.Add([]byte("T stdout F text\nT stderr P more\n"), 3)
	f.Fuzz(func(t *testing.T, log []byte, cut int) {
		whole, parts := &demultiplexer{}, &demultiplexer{}
		var a, b bytes.Buffer
		whole.stdout, whole.stderr, parts.stdout, parts.stderr = &a, &a, &b, &b
		_, errA := whole.Write(log)
		cut = max(0, min(cut, len(log)))
		_, errB := parts.Write(log[:cut])
		if errB == nil {
			_, errB = parts.Write(log[cut:])
		}
		if (errA == nil) != (errB == nil) || a.String() != b.String() {
			t.Errorf("whole: %q, %v; in two parts: %q, %v", a.String(), errA, b.String(), errB)
		}
		if a.Len() > len(log) {
			t.Errorf("%d bytes of text in %d bytes of log", a.Len(), len(log))
		}
	})
}

// The log of a pod is given another file now and then, while somebody reads it.
func TestRotation(t *testing.T) {
	for name, closed := range map[string]bool{"the server closes the old file": true, "it still has it": false} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "0.log")
			create := func() *os.File {
				f, err := os.Create(path)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = f.Close() })
				return f
			}
			write := func(f *os.File, text string) {
				if _, err := f.WriteString("T stdout F " + text + "\n"); err != nil {
					t.Fatal(err)
				}
			}
			before := create()
			write(before, "one")
			var stdout bytes.Buffer
			follower, err := follow(path, true, &stdout, io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			write(before, "two")
			if err := os.Rename(path, path+".1"); err != nil {
				t.Fatal(err)
			}
			after := create()
			write(after, "three")
			if closed {
				_ = before.Close()
			}
			write(after, "four")
			_ = after.Close()
			follower.finish()
			<-follower.ended
			if follower.err != nil || stdout.String() != "one\ntwo\nthree\nfour\n" {
				t.Errorf("%q, %v", stdout.String(), follower.err)
			}
		})
	}
}
