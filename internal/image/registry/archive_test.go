package registry

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/image"
)

// archived makes an archive of files with that content.
func archived(t testing.TB, contents ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i, content := range contents {
		name := strings.Repeat("long-name/", 20*i) + "file"
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestEntries(t *testing.T) {
	zeros := func(n int) string { return strings.Repeat("\x00", n) }
	for name, contents := range map[string][]string{
		"none": nil, "empty": {""}, "one": {"text"}, "several": {"a", "", strings.Repeat("b", 100_000)},
		"zeros at the end": {zeros(4096)}, "a block of zeros": {zeros(512)}, "part of a block": {zeros(700)},
	} {
		whole := archived(t, contents...)
		body := whole[:len(whole)-endOfArchive]
		for padding, more := range map[string]string{"plain": "", "padded": zeros(8192), "followed by others": "garbage"} {
			var got bytes.Buffer
			if err := entries(&got, strings.NewReader(string(whole)+more)); err != nil || !bytes.Equal(got.Bytes(), body) {
				t.Errorf("%s, %s: %d bytes, %v; want %d", name, padding, got.Len(), err, len(body))
			}
		}
		for _, cut := range []int{endOfArchive, 512, 1} {
			if err := entries(io.Discard, bytes.NewReader(whole[:len(whole)-cut])); err == nil {
				t.Errorf("%s, without the last %d bytes: no error", name, cut)
			}
		}
	}
}

func TestEntriesToAFailingWriter(t *testing.T) {
	full := errors.New("full")
	ctx, padding := context.WithCancelCause(t.Context())
	padding(full)
	w := image.WriterContext(ctx, io.Discard)
	if err := entries(w, bytes.NewReader(archived(t, strings.Repeat("x", 10_000)))); !errors.Is(err, full) {
		t.Errorf("error %v, want %v", err, full)
	}
}

// Whatever an archive holds, what is kept of it, with an end put to it, reads the
// same.
func FuzzEntries(f *testing.F) {
	f.Add(archived(f))
	f.Add(archived(f, "one", "two"))
	f.Add(append(archived(f, strings.Repeat("\x00", 1024)), make([]byte, 512)...))
	f.Fuzz(func(t *testing.T, archive []byte) {
		var kept bytes.Buffer
		if entries(&kept, bytes.NewReader(archive)) != nil {
			return
		}
		if !bytes.HasPrefix(archive, kept.Bytes()) {
			t.Fatal("what is kept is not how the archive begins")
		}
		kept.Write(make([]byte, endOfArchive))
		if before, after := names(archive), names(kept.Bytes()); before != after {
			t.Errorf("entries %q became %q", before, after)
		}
	})
}

func names(archive []byte) string {
	var all strings.Builder
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if err != nil {
			all.WriteString(err.Error())
			return all.String()
		}
		all.WriteString(h.Name + "\n")
	}
}
