package image

import (
	"errors"
	"os"
	"testing"
)

// Directories that no entry names are bounded for all layers together.
func TestImpliedDirectories(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }() // only a handle
	u := &unpacker{root: root, made: map[string]bool{}, implied: maxImplied - 2}
	if err := u.place("a/b/c", true); err != nil {
		t.Errorf("as many as there may be: %v", err)
	}
	if err := u.place("a/b/d", true); err != nil {
		t.Errorf("no more than before: %v", err)
	}
	if err := u.place("e/f", true); !errors.Is(err, ErrHostile) {
		t.Errorf("one more: %v, want an error that wraps ErrHostile", err)
	}
}
