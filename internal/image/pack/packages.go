package pack

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

// maxList bounds the list of one package's files.
const maxList = 64 << 20

// Packages says which packages of the host own files: their names by Entry.Origin, as
// "dpkg -S" ("libc6:amd64") or "rpm -qf" say them. A file that no package has
// installed is not in it. Where there is neither dpkg nor rpm, nor a database of
// theirs, none is, and known is false.
//
// The lists of dpkg are read. A database of rpm has one of several formats that
// only rpm reads, so that it is asked.
func (h Host) Packages(ctx context.Context, files []Entry) (owners map[string]string, known bool, err error) {
	t := newTree(h)
	wanted := t.names(files)
	// The pattern is well-formed.
	lists, _ := filepath.Glob(t.outside("/var/lib/dpkg/info/*.list"))
	if len(lists) == 0 {
		return t.askRPM(ctx, wanted)
	}
	owners = map[string]string{}
	for _, list := range lists {
		name := strings.TrimSuffix(filepath.Base(list), ".list")
		err := eachLine(list, func(line []byte) {
			if file, ok := wanted[string(line)]; ok {
				owners[file] = name
			}
		})
		if err != nil {
			return nil, false, err
		}
	}
	return owners, true, nil
}

// names returns the paths of files on the host by how a package may name them.
func (t *tree) names(files []Entry) map[string]string {
	wanted := map[string]string{}
	for _, f := range files {
		wanted[f.Origin] = f.Origin
		if merged, ok := strings.CutPrefix(f.Origin, "/usr"); ok && t.merged(merged) {
			wanted[merged] = f.Origin
		}
	}
	return wanted
}

// merged reports whether the first directory of a path is a link to that of
// the same name in /usr: packages may know their files by the path before.
func (t *tree) merged(name string) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(name, "/"), "/")
	target, err := os.Readlink(t.outside("/" + first))
	return err == nil && path.Join("/", target) == "/usr/"+first
}

// eachLine calls do for every line of a regular file.
func eachLine(file string, do func([]byte)) error {
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // removed this instant
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read from
	lines := bufio.NewScanner(io.LimitReader(f, maxList))
	for lines.Scan() {
		do(lines.Bytes())
	}
	return lines.Err()
}
