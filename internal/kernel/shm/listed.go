package shm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tare-bench/tare/internal/kernel/proc"
)

// maxList is the largest file that is looked into, in bytes. PostgreSQL's list of its segments has 40
// bytes for each.
const maxList = 4 << 20

// listed returns the files of /dev/shm that no process need have mapped, and that belong to a known
// one: a server such as PostgreSQL keeps segments for later, and lists them in a file that it always
// has mapped. They are named NAME.NUMBER like that file and have its user, and the file has the number
// in it, as 32 bits. That another file of the same name and user fits by chance has a probability of one
// in a million for a list of 16 KiB.
func listed(known []Object) (more []Object, err error) {
	entries, err := os.ReadDir(Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		name, number, ok := numbered(e.Name())
		if !ok || !e.Type().IsRegular() {
			continue
		}
		o, gone := lstat(filepath.Join(Dir, e.Name()))
		if gone != nil || slices.Contains(known, o) {
			continue
		}
		for _, k := range known {
			if its, _, ok := numbered(filepath.Base(k.File)); ok && its == name && k.UID == o.UID && k.lists(number) {
				more = append(more, o)
				break
			}
		}
	}
	return more, err
}

// numbered splits a name such as "PostgreSQL.1234".
func numbered(file string) (name string, number uint32, ok bool) {
	i := strings.LastIndexByte(file, '.')
	if i <= 0 {
		return "", 0, false
	}
	n, err := strconv.ParseUint(file[i+1:], 10, 32)
	return file[:i], uint32(n), err == nil && n > 0
}

// lists reports whether a file has a number in it, in the byte order of this machine and aligned.
func (o Object) lists(number uint32) bool {
	info, err := os.Lstat(o.File)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxList {
		return false
	}
	text, err := proc.ReadFile(o.File, maxList)
	if err != nil {
		return false // it is gone, or not for this user
	}
	want := binary.NativeEndian.AppendUint32(nil, number)
	for at := 0; ; {
		i := bytes.Index(text[at:], want)
		if i < 0 {
			return false
		}
		if (at+i)%len(want) == 0 {
			return true
		}
		at += i + 1
	}
}
