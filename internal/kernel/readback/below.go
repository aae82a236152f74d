package readback

import (
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/proc"
)

// DataMounts returns the file systems below a process's bench.DataDir, as in bench.Applied; none if the
// process is not visible from here.
func DataMounts(pid int) []string {
	if pid <= 0 { // for proc.Mounts it would be this process
		return nil
	}
	mounts, err := proc.Mounts("/", pid)
	if err != nil {
		return nil
	}
	return below(coveringMount(mounts, bench.DataDir))
}

// DirMounts is DataMounts for a path of this process.
func DirMounts(path string) []string {
	at, ok := hostMount(path)
	if !ok {
		return nil
	}
	return below(at)
}

// hostMount is the mount of this process that a path lies on.
func hostMount(path string) (proc.Mount, bool) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return proc.Mount{}, false
	}
	mounts, err := proc.Mounts("/", 0)
	if err != nil {
		return proc.Mount{}, false
	}
	at := coveringMount(mounts, real)
	return at, at.Type != ""
}

// maxBelow is how many file systems lie on one another at most: overlays on overlays.
const maxBelow = 8

// below describes a mount, and what the writable layers of overlays are on, as far as that is visible
// from here.
func below(at proc.Mount) (all []string) {
	for len(all) < maxBelow {
		all = append(all, at.Type+" "+strings.Join(options(at), ","))
		upper, ok := at.Option("upperdir")
		if !ok {
			return all
		}
		if at, ok = hostMount(upper); !ok {
			return all
		}
	}
	return all
}

// options returns the options of a mount and of its file system, without those that are different in
// each container: paths, numbers of subvolumes, security labels.
func options(m proc.Mount) (all []string) {
	for o := range strings.SplitSeq(withoutLabels(m.Options+","+m.Super), ",") {
		_, value, _ := strings.Cut(o, "=")
		if o == "" || strings.Contains(value, "/") || strings.HasPrefix(o, "subvolid=") || slices.Contains(all, o) {
			continue
		}
		all = append(all, o)
	}
	return all
}

// withoutLabels removes options such as context="system_u:object_r:container_file_t:s0:c1,c2".
func withoutLabels(options string) string {
	for {
		before, rest, ok := strings.Cut(options, `context="`)
		_, after, closed := strings.Cut(rest, `"`)
		if !ok || !closed {
			return options
		}
		options = before[:strings.LastIndexByte(before, ',')+1] + after
	}
}

// Shm returns the size of /dev/shm of a process in bytes: asked, if that needs as many pages. It is 0 if
// nothing is mounted there, or if it is not visible from here.
func Shm(pid int, asked int64) int64 {
	var st unix.Statfs_t
	name := filepath.Join(file(pid, "root"), "dev/shm")
	if err := unix.Statfs(name, &st); err != nil || st.Type != unix.TMPFS_MAGIC {
		return 0
	}
	size := int64(st.Blocks) * st.Bsize
	if pagesFor(size) == pagesFor(asked) {
		return asked
	}
	return size
}
