package inspect

import (
	"archive/tar"
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/tare-bench/tare/internal/image"
)

// A state is what of a file counts when it is compared with another. Its times do
// not: who makes an image again gives it others. The zero state is that of no file.
type state struct {
	kind     image.Kind // File, Directory or Symlink
	target   string     // of a symbolic link
	mode     int64      // of a file: its permissions, as chmod(1) has them
	uid, gid int
	sum      [sha256.Size]byte // of its content
}

func stateOf(h *tar.Header) state {
	return state{kind: image.File, mode: h.Mode & 0o7777, uid: h.Uid, gid: h.Gid}
}

// String says it in one line; empty for no file.
func (s state) String() string {
	switch s.kind {
	case image.File:
		return fmt.Sprintf("sha256:%x %04o %d:%d", s.sum, s.mode, s.uid, s.gid)
	case image.Symlink:
		return "-> " + s.target
	}
	return ""
}

// fileDifferences are the files and symbolic links that are not the same in all
// images, by path.
func fileDifferences(images []*Report) []Difference {
	differs := map[string]bool{}
	for _, r := range images {
		for name, s := range r.files {
			if slices.ContainsFunc(images, func(o *Report) bool { return o.files[name] != s }) {
				differs[name] = true
			}
		}
	}
	all := []Difference{}
	for name := range differs {
		d := Difference{What: name}
		for _, r := range images {
			d.Values = append(d.Values, r.files[name].String())
		}
		all = append(all, d)
	}
	slices.SortFunc(all, func(a, b Difference) int { return cmp.Compare(a.What, b.What) })
	return all
}
