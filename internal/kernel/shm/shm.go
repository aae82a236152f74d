// Package shm finds the shared memory that processes of this host have made outside of their own, and
// removes exactly that: System V segments, and files of /dev/shm. Both outlive the processes that
// made them if those are killed.
package shm

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/kernel/proc"
)

// Dir is where the files lie.
const Dir = "/dev/shm"

// An Object is one piece of shared memory. It has what tells it from another one that gets the same
// number or name later.
type Object struct {
	File   string `json:"file,omitempty"` // its path; empty for a System V segment
	ID     uint64 `json:"id"`             // of a segment; the inode of a file
	Key    uint32 `json:"key,omitempty"`  // of a segment
	UID    uint32 `json:"uid"`            // of the user who made it
	Change int64  `json:"change"`         // when a segment was made, in seconds; the device of a file
}

// ErrUsed is wrapped by the error of removing what a process still uses.
var ErrUsed = errors.New("a process still uses it")

// String names the object as its user's tools do, such as "shared memory segment 12".
func (o Object) String() string {
	if o.File != "" {
		return o.File
	}
	return fmt.Sprintf("shared memory segment %d", o.ID)
}

// Of lists what the processes have mapped or open and their own users have made, and the files that such a
// file lists (see listed). Processes that have ended, or that this user may not examine, have none.
func Of(pids ...int) (all []Object, err error) {
	for _, pid := range pids {
		maps, err := mapsOf(pid)
		if err != nil {
			return nil, err
		}
		for _, m := range maps {
			o, ok := m.object()
			if ok && o.UID == m.uid && !slices.Contains(all, o) {
				all = append(all, o)
			}
		}
	}
	more, err := listed(all)
	return append(all, more...), err
}

// A mapping is what can be shared memory of a process: one line of /proc/PID/maps, or an open file, which it has
// just made and has not mapped yet.
type mapping struct {
	uid    uint32 // of the process
	path   string
	device uint64
	inode  uint64
}

// mapsOf lists a process's mappings that can be shared memory.
func mapsOf(pid int) ([]mapping, error) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	info, err := os.Stat(dir)
	if err != nil {
		return nil, ended(err)
	}
	text, err := proc.ReadFile(filepath.Join(dir, "maps"), 64<<20)
	if err != nil {
		return nil, ended(err)
	}
	open, err := opened(filepath.Join(dir, "fd"))
	if err != nil {
		return nil, ended(err)
	}
	all := append(parse(text), open...)
	for i := range all {
		all[i].uid = info.Sys().(*syscall.Stat_t).Uid // what it is on Linux
	}
	return all, nil
}

// opened lists the files of /dev/shm among a process's open ones, which are links in a directory.
func opened(dir string) (all []mapping, err error) {
	files, err := os.ReadDir(dir)
	for _, f := range files {
		link := filepath.Join(dir, f.Name())
		path, gone := os.Readlink(link)
		if gone != nil || !strings.HasPrefix(path, Dir+"/") {
			continue
		}
		var st unix.Stat_t
		if unix.Stat(link, &st) == nil { // else it is closed
			all = append(all, mapping{path: path, device: st.Dev, inode: st.Ino})
		}
	}
	return all, err
}

// ended returns nil for the error of a process that has ended or that is not this user's.
func ended(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

// parse reads the text of /proc/PID/maps:
//
//	ADDRESSES PERMISSIONS OFFSET DEVICE INODE PATH
func parse(text []byte) (all []mapping) {
	for line := range bytes.Lines(text) {
		fields := strings.Fields(string(line))
		if len(fields) < 6 {
			continue
		}
		path := fields[5] // neither kind has blanks in its name
		if !strings.HasPrefix(path, segment) && !strings.HasPrefix(path, Dir+"/") {
			continue
		}
		inode, err := strconv.ParseUint(fields[4], 10, 64)
		device, ok := parseDevice(fields[3])
		if err == nil && ok {
			all = append(all, mapping{path: path, device: device, inode: inode})
		}
	}
	return all
}

// parseDevice reads a device such as "00:1a", as stat numbers it.
func parseDevice(text string) (uint64, bool) {
	major, minor, _ := strings.Cut(text, ":")
	a, err1 := strconv.ParseUint(major, 16, 32)
	b, err2 := strconv.ParseUint(minor, 16, 32)
	return unix.Mkdev(uint32(a), uint32(b)), err1 == nil && err2 == nil
}

// segment begins the name of a System V segment in /proc/PID/maps; its key follows.
const segment = "/SYSV"

// object looks a mapping up; false if it is not, or is no longer, what can be removed.
func (m mapping) object() (Object, bool) {
	if key, ok := strings.CutPrefix(m.path, segment); ok {
		k, err := strconv.ParseUint(key, 16, 32)
		o, found := stat(m.inode)
		return o, err == nil && found && uint64(o.Key) == k
	}
	o, err := lstat(m.path)
	return o, err == nil && o.is(m)
}

// is reports whether a file is what was mapped.
func (o Object) is(m mapping) bool {
	return m.path == o.File && m.inode == o.ID && int64(m.device) == o.Change
}

// stat looks up the segment of this number.
func stat(id uint64) (Object, bool) {
	var d unix.SysvShmDesc
	if _, err := unix.SysvShmCtl(int(id), unix.IPC_STAT, &d); err != nil {
		return Object{}, false
	}
	return Object{ID: id, Key: uint32(d.Perm.Key), UID: d.Perm.Cuid, Change: d.Ctime}, true
}

func lstat(file string) (Object, error) {
	var st unix.Stat_t
	if err := unix.Lstat(file, &st); err != nil {
		return Object{}, err
	}
	return Object{File: file, ID: st.Ino, UID: st.Uid, Change: int64(st.Dev)}, nil
}

// Exists reports whether the object is still there.
func (o Object) Exists() bool {
	now, err := o.now()
	return err == nil && now == o
}

// now is what has the object's number or name at present.
func (o Object) now() (Object, error) {
	if o.File != "" {
		return lstat(o.File)
	}
	now, ok := stat(o.ID)
	if !ok {
		return now, fs.ErrNotExist
	}
	return now, nil
}

// Remove removes the object. It is no error if it is gone. Another object of the same number or name
// stays, and so does one that a process still uses: then the error wraps ErrUsed.
func (o Object) Remove() error {
	if !o.Exists() {
		return nil
	}
	used, err := o.used()
	if err == nil && used {
		err = ErrUsed
	}
	if err == nil && o.File != "" {
		err = os.Remove(o.File)
	} else if err == nil {
		_, err = unix.SysvShmCtl(int(o.ID), unix.IPC_RMID, nil)
	}
	if err != nil && o.Exists() {
		return fmt.Errorf("remove %v: %w", o, err)
	}
	return nil
}

// used reports whether a process has mapped or opened the object.
func (o Object) used() (bool, error) {
	if o.File == "" {
		var d unix.SysvShmDesc
		_, err := unix.SysvShmCtl(int(o.ID), unix.IPC_STAT, &d)
		return d.Nattch > 0, err
	}
	all, err := proc.All("/")
	if err != nil {
		return false, err
	}
	for _, p := range all {
		maps, err := mapsOf(p.PID)
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(maps, o.is) {
			return true, nil
		}
	}
	return false, nil
}
