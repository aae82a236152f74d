package agent

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Facts are what a process inside a container sees of itself and its environment: what
// an engine applied, read from the kernel.
type Facts struct {
	UID          int      `json:"uid"`
	GID          int      `json:"gid"`
	Dir          string   `json:"cwd"`
	Argv         []string `json:"argv"`
	Interfaces   []string `json:"interfaces"` // names, in the kernel's order
	NetNS        uint64   `json:"netns"`      // inode of the network namespace
	UserNS       uint64   `json:"userns"`     // inode of the user namespace
	Mounts       []Mount  `json:"mounts"`     // in the kernel's order; a later one hides an earlier one at its target
	NoNewPrivs   bool     `json:"no_new_privs"`
	Seccomp      int      `json:"seccomp"` // 0 off, 1 strict, 2 filter
	RootWritable bool     `json:"root_writable"`
	Shm          int64    `json:"shm"`   // size of /dev/shm in bytes; 0 if there is none
	Files        uint64   `json:"files"` // RLIMIT_NOFILE, which the Go runtime has raised to the hard limit
	OOM          int      `json:"oom"`   // oom_score_adj
}

// A Mount is one line of /proc/self/mountinfo.
type Mount struct {
	Type     string `json:"type"`   // file system, such as "overlay"
	Source   string `json:"source"` // of the file system: a device, or any word
	Root     string `json:"root"`   // directory of the file system that is visible
	Target   string `json:"target"`
	ReadOnly bool   `json:"ro"` // the mount or its file system
}

func facts(args []string, stdout, stderr io.Writer) int {
	if len(args) != 0 {
		return exitUsage
	}
	f, err := readFacts()
	if err != nil {
		return result(stderr, "facts", err)
	}
	b, err := json.Marshal(f)
	if err != nil {
		return result(stderr, "facts", err)
	}
	_, err = stdout.Write(append(b, '\n'))
	return result(stderr, "facts", err)
}

// readFacts reads the facts from /proc, which every engine mounts.
func readFacts() (Facts, error) {
	f := Facts{
		UID: os.Getuid(), GID: os.Getgid(), Argv: os.Args,
		// The kernel answers EROFS to root too, and nothing is written.
		RootWritable: syscall.Access("/", 2) == nil,
	}
	var r reader
	f.Dir = r.string(os.Getwd())
	f.NetNS = r.namespace("net")
	f.UserNS = r.namespace("user")
	f.Interfaces = parseInterfaces(r.file("net/dev"))
	mounts, err := parseMounts(r.file("mountinfo"))
	r.note(err)
	f.Mounts = mounts
	f.Shm = sizeOf("/dev/shm")
	f.OOM, err = strconv.Atoi(strings.TrimSpace(r.file("oom_score_adj")))
	r.note(err)
	var files syscall.Rlimit
	r.note(syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files))
	f.Files = files.Cur
	r.note(f.parseStatus(r.file("status")))
	return f, r.err
}

// sizeOf is the size of the file system that is mounted at a directory; 0 if nothing is.
func sizeOf(dir string) int64 {
	var at, above syscall.Stat_t
	var fs syscall.Statfs_t
	if syscall.Stat(dir, &at) != nil || syscall.Stat(dir+"/..", &above) != nil || syscall.Statfs(dir, &fs) != nil ||
		at.Dev == above.Dev {
		return 0
	}
	return int64(fs.Blocks) * fs.Bsize
}

// A reader reads several things and keeps the first error.
type reader struct{ err error }

func (r *reader) note(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *reader) string(s string, err error) string {
	r.note(err)
	return s
}

// file returns the text of a file of /proc/self.
func (r *reader) file(name string) string {
	b, err := os.ReadFile("/proc/self/" + name)
	r.note(err)
	return string(b)
}

// namespace returns the inode in a link such as "net:[4026531840]".
func (r *reader) namespace(name string) uint64 {
	link := r.string(os.Readlink("/proc/self/ns/" + name))
	inode, ok := strings.CutPrefix(strings.TrimSuffix(link, "]"), name+":[")
	n, err := strconv.ParseUint(inode, 10, 64)
	if !ok || err != nil {
		r.note(fmt.Errorf("namespace %s: cannot read %q", name, link))
	}
	return n
}

// parseStatus reads some fields from the text of /proc/self/status. It skips a field that
// the kernel was built without.
func (f *Facts) parseStatus(text string) error {
	for _, line := range lines(text) {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		var err error
		switch key {
		case "NoNewPrivs":
			f.NoNewPrivs = value == "1"
		case "Seccomp":
			f.Seccomp, err = strconv.Atoi(value)
		}
		if err != nil {
			return fmt.Errorf("status: %s: %w", key, err)
		}
	}
	return nil
}

// parseInterfaces reads the names from the text of /proc/self/net/dev: two heading
// lines, then "name: numbers".
func parseInterfaces(text string) []string {
	names := []string{}
	for _, line := range lines(text) {
		if name, _, ok := strings.Cut(line, ":"); ok {
			names = append(names, strings.TrimSpace(name))
		}
	}
	return names
}

// parseMounts reads the text of /proc/self/mountinfo; see proc_pid_mountinfo(5).
func parseMounts(text string) ([]Mount, error) {
	mounts := []Mount{}
	for _, line := range lines(text) {
		before, after, _ := strings.Cut(line, " - ")
		mount, fs := strings.Fields(before), strings.Fields(after)
		if len(mount) < 6 || len(fs) < 3 {
			return nil, fmt.Errorf("mountinfo: cannot read %.200q", line)
		}
		mounts = append(mounts, Mount{
			Type: fs[0], Source: unescape(fs[1]), Root: unescape(mount[3]), Target: unescape(mount[4]),
			ReadOnly: readOnly(mount[5]) || readOnly(fs[2]),
		})
	}
	return mounts, nil
}

// readOnly reports whether a comma-separated list of options begins with or
// contains "ro".
func readOnly(options string) bool {
	for o := range strings.SplitSeq(options, ",") {
		if o == "ro" {
			return true
		}
	}
	return false
}

// unescape undoes the kernel's octal escapes of white space and backslashes.
func unescape(s string) string {
	var b strings.Builder
	for {
		before, after, ok := strings.Cut(s, `\`)
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		s = after
		if len(s) >= 3 {
			if c, err := strconv.ParseUint(s[:3], 8, 8); err == nil {
				b.WriteByte(byte(c))
				s = s[3:]
				continue
			}
		}
		b.WriteByte('\\')
	}
}

// lines splits text into lines, without an empty one at the end.
func lines(text string) []string {
	text = strings.TrimSuffix(text, "\n")
	if text == "" {
		return []string{}
	}
	return strings.Split(text, "\n")
}
