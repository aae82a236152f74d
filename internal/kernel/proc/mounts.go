package proc

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A Mount is one line of /proc/PID/mountinfo.
type Mount struct {
	Device  string // "MAJOR:MINOR" of the file system
	Root    string // the mounted directory of the file system
	Point   string // where
	Options string // of the mount, such as "rw,relatime"
	Type    string // such as "overlay"
	Source  string // such as "/dev/vda1"
	Super   string // options of the file system
}

// ReadOnly reports whether nothing can be written through the mount.
func (m Mount) ReadOnly() bool {
	return slices.Contains(strings.Split(m.Options, ","), "ro") || slices.Contains(strings.Split(m.Super, ","), "ro")
}

// Option returns the value of a KEY=VALUE option of the file system.
func (m Mount) Option(key string) (value string, ok bool) {
	for o := range strings.SplitSeq(m.Super, ",") {
		if value, ok = strings.CutPrefix(o, key+"="); ok {
			return unescape(value), true
		}
	}
	return "", false
}

// Mounts lists the mounts that a process sees, in the order they were made; 0
// means this process. errors.Is(err, fs.ErrNotExist) if there is no process.
func Mounts(root string, pid int) ([]Mount, error) {
	who := "self"
	if pid != 0 {
		who = strconv.Itoa(pid)
	}
	text, err := readFile(filepath.Join(root, "proc", who, "mountinfo"))
	if err != nil {
		return nil, err
	}
	return parseMounts(text), nil
}

// parseMounts reads mountinfo:
//
//	ID PARENT MAJ:MIN ROOT POINT OPTIONS [TAG…] - TYPE SOURCE SUPER-OPTIONS
func parseMounts(text []byte) []Mount {
	var mounts []Mount
	for line := range strings.Lines(string(text)) {
		left, right, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		// A source may be empty, so every blank separates.
		l, r := strings.Split(left, " "), strings.Split(right, " ")
		if len(l) < 6 || len(r) < 3 {
			continue
		}
		mounts = append(mounts, Mount{
			Device: l[2], Root: unescape(l[3]), Point: unescape(l[4]), Options: l[5],
			Type: r[0], Source: unescape(r[1]), Super: r[2],
		})
	}
	return mounts
}

// unescape undoes the kernel's \ooo for blanks and backslashes.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// SameMount reports whether two directories belong to one mount. Before Linux 5.8, which does not tell, none do.
func SameMount(a, b string) bool {
	var mounts [2]uint64
	for i, dir := range []string{a, b} {
		var s unix.Statx_t
		err := unix.Statx(unix.AT_FDCWD, dir, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_MNT_ID, &s)
		if err != nil || s.Mask&unix.STATX_MNT_ID == 0 {
			return false
		}
		mounts[i] = s.Mnt_id
	}
	return mounts[0] == mounts[1]
}
