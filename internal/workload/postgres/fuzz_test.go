package postgres

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

// A server may print anything, in pieces of any size: what is kept of it is bounded, and valid text.
func FuzzServerLog(f *testing.F) {
	f.Add([]byte("LOG:  ready\nPANIC:  no\n"), 3)
	f.Add([]byte("\xff\xfe\n\n\nFATAL: \x00"), 1)
	f.Add(bytes.Repeat([]byte("redo starts\n"), 100), 7)
	f.Fuzz(func(t *testing.T, text []byte, piece int) {
		l := &serverLog{}
		w := l.writer()
		piece = max(1, piece%1000)
		for rest := text; len(rest) > 0; {
			n := min(piece, len(rest))
			if wrote, err := w.Write(rest[:n]); wrote != n || err != nil {
				t.Fatalf("Write = %d, %v, want %d", wrote, err, n)
			}
			rest = rest[n:]
		}
		kept := l.text()
		if !utf8.ValidString(kept) {
			t.Errorf("%q is not valid", kept)
		}
		for _, lines := range [][]string{l.last, l.severe} {
			if len(lines) > keptLines {
				t.Errorf("%d lines were kept", len(lines))
			}
			for _, line := range lines {
				if len(line) > maxLine || line == "" || strings.Contains(line, "\n") {
					t.Errorf("a line of %d bytes was kept: %q", len(line), line)
				}
			}
		}
	})
}

// A control file may hold anything.
func FuzzCleanlyStopped(f *testing.F) {
	f.Add([]byte{})
	f.Add(make([]byte, 8192))
	f.Fuzz(func(t *testing.T, control []byte) {
		if _, err := cleanlyStopped(control); err == nil && len(control) < 20 {
			t.Errorf("%d bytes are taken for a control file", len(control))
		}
	})
}
