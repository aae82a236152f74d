package datadir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/kernel/proc"
	"github.com/tare-bench/tare/internal/kernel/shm"
)

// A server that works in a directory of data as a plain process has more on the host than this
// directory: processes in sessions of their own, and shared memory that outlives them if they are
// killed. Both belong to the directory. The processes are those whose working directory is in it.
// Their shared memory is recorded beside the directory's record while they live, because afterwards
// nothing tells whose it was.

// belongingsSuffix ends the name of the file, beside the record of a directory, that lists the shared
// memory which belongs to it.
const belongingsSuffix = ".shm"

// Note records the shared memory of processes, so that it is removed with the directory even if they
// are killed. It does nothing for a nil Dir and for a container's.
func (d *Dir) Note(pids ...int) error {
	if d == nil || !d.forPlain {
		return nil
	}
	return d.note(pids)
}

// NoteLast is Note for a process that is about to be killed, and its descendants. They are stopped first:
// a server that starts its processes anew could make more between the note and the kill.
func (d *Dir) NoteLast(first int) error {
	if d == nil || !d.forPlain {
		return nil
	}
	var pids []int
	for range stopRounds {
		all, err := proc.Descendants("/", first)
		if err != nil {
			all = []int{first} // the kernel does not list children, or it has just ended
		}
		if slices.Equal(all, pids) {
			break
		}
		pids = all
		stop(pids)
	}
	return d.note(pids)
}

// stopRounds is how often processes are looked for that others have started before they were stopped.
const stopRounds = 10

// stopLimit is how long processes may take to stop: one that waits for a disk does not stop before.
const stopLimit = time.Second

// stop stops processes, and waits until none of them runs, or stopLimit is over.
func stop(pids []int) {
	for _, pid := range pids {
		_ = unix.Kill(pid, unix.SIGSTOP) // it may have ended; what is another user's is not noted either
	}
	end := time.Now().Add(stopLimit)
	for _, pid := range pids {
		for p, err := proc.Find("/", pid); err == nil && strings.ContainsRune("RSD", rune(p.State)); {
			if time.Now().After(end) {
				return
			}
			time.Sleep(100 * time.Microsecond)
			p, err = proc.Find("/", pid)
		}
	}
}

// NoteWorker is NoteLast for a process that works in one of the directories of a run, whichever of its engines of
// plain processes that belongs to.
func (k *Manager) NoteWorker(run string, pid int) error {
	dir := filepath.Join(k.runs(), run)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		engine, ok := strings.CutPrefix(e.Name(), recordsPrefix)
		if !ok {
			continue
		}
		of := NewPlain(run, engine, dir)
		all, unread := of.fromRecords(of.records, run)
		err = errors.Join(err, unread)
		for _, d := range all {
			if real, unknown := filepath.EvalSymlinks(d.whole); unknown == nil && worksIn(pid, real) {
				err = errors.Join(err, d.NoteLast(pid))
			}
		}
	}
	return err
}

func (d *Dir) note(pids []int) error {
	found, err := shm.Of(pids...)
	if err != nil {
		return err
	}
	known, err := d.belongings()
	if err != nil {
		return err
	}
	all := slices.Clone(known)
	for _, o := range found {
		if !slices.Contains(all, o) {
			all = append(all, o)
		}
	}
	if len(all) == len(known) {
		return nil
	}
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	// Whole or not at all: a killed tare must not leave a half.
	file := d.record + belongingsSuffix
	if err := os.WriteFile(file+"~", text, 0o600); err != nil {
		return err
	}
	return os.Rename(file+"~", file)
}

// belongings reads what Note recorded.
func (d *Dir) belongings() (all []shm.Object, err error) {
	text, err := proc.ReadFile(d.record+belongingsSuffix, 1<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		return nil, fmt.Errorf("the record of what belongs to %s: %w", d.whole, err)
	}
	return all, nil
}

// workers lists the run's processes whose working directory is this directory or below it.
func (d *Dir) workers() (all []proc.Process, err error) {
	real, err := filepath.EvalSymlinks(d.whole)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir("/proc")
	for _, e := range entries {
		pid, notProcess := strconv.Atoi(e.Name())
		if notProcess != nil || !worksIn(pid, real) || !isOwn(pid) {
			continue
		}
		if p, err := proc.Find("/", pid); err == nil { // else it has ended
			all = append(all, p)
		}
	}
	return all, err
}

func worksIn(pid int, dir string) bool {
	at, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "cwd"))
	return err == nil && (at == dir || strings.HasPrefix(at, dir+"/"))
}

// RunVariable is in the environment of every plain process of a run, with the run's ID.
const RunVariable = "TARE_RUN"

// isOwn tells a run's processes from those of a user who looks around in the directory. Servers such as
// PostgreSQL overwrite the environment of their processes with the text that ps shows.
func isOwn(pid int) bool {
	environ, err := proc.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"), 4<<20)
	if err != nil || len(environ) == 0 {
		return false
	}
	overwritten := len(bytes.Trim(environ, "\x00")) == 0
	return overwritten || bytes.Contains(append([]byte{0}, environ...), []byte("\x00"+RunVariable+"="))
}

func pidsOf(all []proc.Process) (pids []int) {
	for _, p := range all {
		pids = append(pids, p.PID)
	}
	return pids
}

// vacateLimit is how long killed processes may take to end.
const vacateLimit = 10 * time.Second

// vacate kills the processes that work in the directory, and removes the shared memory that belongs to
// it.
func (d *Dir) vacate() error {
	if !d.forPlain {
		return nil
	}
	for end := time.Now().Add(vacateLimit); ; time.Sleep(time.Millisecond) {
		workers, err := d.workers()
		if err != nil || len(workers) == 0 {
			return errors.Join(err, d.removeBelongings())
		}
		if time.Now().After(end) {
			return fmt.Errorf("process %d works in %s and does not end", workers[0].PID, d.whole)
		}
		stop(pidsOf(workers))
		if err := d.note(pidsOf(workers)); err != nil {
			return err
		}
		for _, w := range workers {
			if err := unix.Kill(w.PID, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("kill process %d, which works in %s: %w", w.PID, d.whole, err)
			}
		}
	}
}

func (d *Dir) removeBelongings() error {
	all, err := d.belongings()
	for _, o := range all {
		err = errors.Join(err, o.Remove())
	}
	if err != nil {
		return err
	}
	return errors.Join(removeFile(d.record+belongingsSuffix+"~"), removeFile(d.record+belongingsSuffix))
}
