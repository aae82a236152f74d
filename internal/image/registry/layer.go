package registry

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// A layer is a stored layer: its compressed archive without the archive's end. Salting appends one
// more file and the end, as a separate gzip member. The states of both hashes are stored, so that
// salting takes no time.
type layer struct {
	file string // with Size bytes

	Size  int64
	Plain int64  // bytes, uncompressed
	State []byte // state of SHA-256 over the file
	Raw   []byte // state of SHA-256 over the uncompressed archive
}

// A blob is a layer of one Content, or its configuration, which has no file.
type blob struct {
	file string
	head int64  // bytes of the file
	tail []byte // the bytes after these
}

func (b blob) size() int64 { return b.head + int64(len(b.tail)) }

// cachedLayer returns the layer with a name, and makes its files in dir if they do not exist. write writes
// the entries of the archive, without its end.
func cachedLayer(dir, name string, write func(w io.Writer) error) (layer, error) {
	l := layer{file: filepath.Join(dir, name+".tar.gz")}
	notes := filepath.Join(dir, name+".json") // written last, so if it exists, the layer is complete
	text, err := os.ReadFile(notes)
	if err == nil {
		return l, json.Unmarshal(text, &l)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return l, err
	}
	if err := l.make(write); err != nil {
		return l, err
	}
	if text, err = json.Marshal(l); err != nil {
		return l, err
	}
	return l, writeAtomically(notes, func(w io.Writer) error { _, err := w.Write(text); return err })
}

func (l *layer) make(write func(w io.Writer) error) error {
	raw, packed := sha256.New(), sha256.New()
	err := writeAtomically(l.file, func(w io.Writer) error {
		size, plain := &counter{}, &counter{}
		zip := gzip.NewWriter(io.MultiWriter(w, packed, size))
		if err := write(io.MultiWriter(zip, raw, plain)); err != nil {
			return err
		}
		err := zip.Close()
		l.Size, l.Plain = size.n, plain.n
		return err
	})
	if err != nil {
		return err
	}
	l.State, err = stateOf(packed)
	if err == nil {
		l.Raw, err = stateOf(raw)
	}
	return err
}

type counter struct{ n int64 }

func (c *counter) Write(p []byte) (int, error) { c.n += int64(len(p)); return len(p), nil }

// writeAtomically writes a file completely or not at all.
func writeAtomically(file string, write func(w io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(file), ".new-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	w := bufio.NewWriterSize(f, 1<<20)
	if err := errors.Join(write(w), w.Flush(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), file)
}

// as crypto/sha256 promises
func stateOf(h hash.Hash) ([]byte, error) { return h.(encoding.BinaryMarshaler).MarshalBinary() }

// digestAfter is the digest of the data of a state, followed by more.
func digestAfter(state, more []byte) (string, error) {
	h := sha256.New()
	if err := h.(encoding.BinaryUnmarshaler).UnmarshalBinary(state); err != nil { // as above
		return "", err
	}
	h.Write(more)
	return digestOf(h), nil
}

func digestOf(h hash.Hash) string { return "sha256:" + hex.EncodeToString(h.Sum(nil)) }

// salted returns the layer with one more file, its digest, and the digest of its uncompressed
// archive.
func (l layer) salted(name, salt string) (_ blob, digest, diffID string, err error) {
	var end, packed bytes.Buffer
	tw, zip := tar.NewWriter(&end), gzip.NewWriter(&packed)
	err = tw.WriteHeader(&tar.Header{Name: name, Mode: 0o444, Size: int64(len(salt)), ModTime: time.Unix(0, 0)})
	if err == nil {
		_, err = io.WriteString(tw, salt)
	}
	if err = errors.Join(err, tw.Close()); err != nil {
		return blob{}, "", "", err
	}
	_, err = zip.Write(end.Bytes())
	if err = errors.Join(err, zip.Close()); err != nil {
		return blob{}, "", "", err
	}
	digest, err = digestAfter(l.State, packed.Bytes())
	if err != nil {
		return blob{}, "", "", fmt.Errorf("%s: %w", l.file, err)
	}
	diffID, err = digestAfter(l.Raw, end.Bytes())
	return blob{file: l.file, head: l.Size, tail: packed.Bytes()}, digest, diffID, err
}
