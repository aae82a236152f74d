package readback

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/proc"
)

// Data returns what a process's bench.DataDir lies on, as in bench.Applied, and the type of the
// file system. It is "layer" in the process's root, "tmpfs" on a tmpfs, and kind if it is the
// directory source, where the engine keeps storage of that kind. Any other mount is "other", which
// is not a value of a Spec. If the directory does not exist, errors.Is(err, fs.ErrNotExist).
func Data(pid int, kind, source string) (string, error) {
	if pid <= 0 { // for proc.Mounts it would be this process
		return "", &fs.PathError{Op: "open", Path: file(pid, "mountinfo"), Err: fs.ErrNotExist}
	}
	mounts, err := proc.Mounts("/", pid)
	if err != nil {
		return "", err
	}
	inside := filepath.Join(file(pid, "root"), bench.DataDir)
	if info, err := os.Lstat(inside); err != nil {
		return "", err
	} else if !info.IsDir() {
		return "", fmt.Errorf("%s in the container is not a directory", bench.DataDir)
	}
	at := coveringMount(mounts, bench.DataDir)
	return dataOn(at, kind, source != "" && SameFile(inside, source)) + " " + at.Type, nil
}

// DataOr is Data for drivers whose engine's processes may not be visible from here. Then pid is
// 0, and the engine's statement counts, see DataByEngine.
func DataOr(pid int, kind, source string) (string, error) {
	if pid == 0 {
		return DataByEngine(kind, source), nil
	}
	return Data(pid, kind, source)
}

// DataByEngine is Data for a process that does not exist yet, according to the engine. source is the
// directory on this host, if there is one.
func DataByEngine(kind, source string) string {
	switch {
	case kind == "tmpfs":
		return "tmpfs tmpfs"
	case source == "":
		return kind
	}
	return strings.TrimSpace(kind + " " + FileSystem(source))
}

func dataOn(at proc.Mount, kind string, same bool) string {
	switch {
	case at.Point == "/":
		return "layer"
	case same:
		return kind
	case at.Type == "tmpfs":
		return "tmpfs"
	default:
		return "other"
	}
}

// FileSystem returns the type of the file system that a path of this process
// lies on, such as "ext4"; empty if the kernel does not tell.
func FileSystem(path string) string {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return ""
	}
	mounts, err := proc.Mounts("/", 0)
	if err != nil {
		return ""
	}
	return coveringMount(mounts, real).Type
}

// coveringMount returns the mount that an absolute path lies on. Of several mounts in the same place the
// last one counts.
func coveringMount(mounts []proc.Mount, path string) (found proc.Mount) {
	for _, m := range mounts {
		below := m.Point == path || strings.HasPrefix(path, strings.TrimSuffix(m.Point, "/")+"/")
		if below && len(m.Point) >= len(found.Point) {
			found = m
		}
	}
	return found
}
