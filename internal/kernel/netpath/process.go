package netpath

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tare-bench/tare/internal/kernel/proc"
	"github.com/tare-bench/tare/internal/text/plain"
)

// maxFile limits what is read from one file of a process, in bytes.
const maxFile = 1 << 20

func dirOf(pid int) string { return filepath.Join("/proc", strconv.Itoa(pid)) }

// eachProcess calls do for every process until it returns false.
func eachProcess(do func(pid int) bool) error {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && !do(pid) {
			return nil
		}
	}
	return nil
}

// nameOf is the kernel's name for a process.
func nameOf(pid int) string {
	return programOf(cmp.Or(proc.Name(pid), Unknown))
}

// programOf is the program's name from a process's name. passt and pasta add the processor
// instructions that they use, which do not matter for a path.
func programOf(name string) string {
	return plain.Line(strings.TrimSuffix(name, ".avx2"))
}

// links returns the kernel's names of a process's open files; none if this user may not see them.
func links(pid int) map[string]string {
	dir := filepath.Join(dirOf(pid), "fd")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	all := map[string]string{}
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil {
			all[e.Name()] = to
		}
	}
	return all
}

// ownsSocket reports whether a process has a socket open.
func ownsSocket(pid int, inode uint64) bool {
	want := fmt.Sprintf("socket:[%d]", inode)
	for _, to := range links(pid) {
		if to == want {
			return true
		}
	}
	return false
}

// holdsTap reports whether a process has a TAP device of that name open.
func holdsTap(pid int, device string) bool {
	for fd, to := range links(pid) {
		if !strings.HasSuffix(to, "/net/tun") {
			continue
		}
		text, err := proc.ReadFile(filepath.Join(dirOf(pid), "fdinfo", fd), maxFile)
		if err == nil && deviceIn(text) == device {
			return true
		}
	}
	return false
}

// deviceIn reads the name of a TUN or TAP device from a file in /proc/PID/fdinfo.
func deviceIn(text []byte) string {
	for line := range bytes.Lines(text) {
		if name, ok := bytes.CutPrefix(line, []byte("iff:")); ok {
			return string(bytes.TrimSpace(name))
		}
	}
	return ""
}

// nameIn reports whether an argument of a process names this network namespace: by a file, or by a
// process that is in it.
func nameIn(pid int, ns os.FileInfo) bool {
	for _, arg := range proc.Args(pid) {
		_, value, ok := strings.Cut(arg, "=")
		if !ok {
			value = arg
		}
		if number, err := strconv.Atoi(value); err == nil && number > 0 {
			value = filepath.Join(dirOf(number), "ns/net")
		}
		if info, err := os.Stat(value); filepath.IsAbs(value) && err == nil && os.SameFile(info, ns) {
			return true
		}
	}
	return false
}

// childIn reports whether a child of a process is in a network namespace.
func childIn(parent int, ns os.FileInfo) (bool, error) {
	all, err := proc.All("/")
	if err != nil {
		return false, err
	}
	for _, p := range all {
		if p.Parent != parent {
			continue
		}
		if info, err := os.Stat(filepath.Join(dirOf(p.PID), "ns/net")); err == nil && os.SameFile(info, ns) {
			return true, nil
		}
	}
	return false, nil
}
