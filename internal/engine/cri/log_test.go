package cri

import (
	"bytes"
	"errors"
	"io"
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
