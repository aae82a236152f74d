package datadir_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/datadir"
	"github.com/tare-bench/tare/internal/kernel/shm"
)

// workVariable makes this program one that works in a directory: see work.
const workVariable = "TARE_TEST_WORK"

func TestMain(m *testing.M) {
	if os.Getenv(workVariable) != "" {
		if err := work(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// work maps shared memory of either kind, prints what, and stays until its input ends.
func work() error {
	id, err := unix.SysvShmGet(unix.IPC_PRIVATE, 4096, unix.IPC_CREAT|0o600)
	if err != nil {
		return err
	}
	if _, err := unix.SysvShmAttach(id, 0, 0); err != nil {
		return err
	}
	f, err := os.CreateTemp(shm.Dir, "tare-test-")
	if err != nil {
		return err
	}
	if err := f.Truncate(4096); err != nil {
		return err
	}
	if _, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ, unix.MAP_SHARED); err != nil {
		return err
	}
	fmt.Println(id, f.Name())
	for {
		time.Sleep(time.Hour)
	}
}

// A worker is a process that works in a directory.
type worker struct {
	*exec.Cmd
	segment int
	file    string
}

// startWorker starts one, with a mark or without.
func startWorker(t *testing.T, dir string, mark string) *worker {
	t.Helper()
	w := &worker{Cmd: exec.Command(os.Args[0])}
	w.Dir, w.Env = dir, []string{workVariable + "=yes", mark}
	out, err := w.StdoutPipe()
	if err == nil {
		err = w.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = w.Process.Kill() // it may have been killed
		_ = w.Wait()         // with the status of a killed process
		_, _ = unix.SysvShmCtl(w.segment, unix.IPC_RMID, nil)
		_ = os.Remove(w.file) // both may be gone
	})
	line, _ := bufio.NewReader(out).ReadString('\n') // what it says is checked
	id, file, ok := strings.Cut(strings.TrimSpace(line), " ")
	if w.segment, err = strconv.Atoi(id); err != nil || !ok {
		t.Skipf("no shared memory here: %q", line)
	}
	w.file = file
	return w
}

// left tells what of a worker is left.
func (w *worker) left() (all []string) {
	var d unix.SysvShmDesc
	if _, err := unix.SysvShmCtl(w.segment, unix.IPC_STAT, &d); err == nil {
		all = append(all, "segment")
	}
	if _, err := os.Stat(w.file); err == nil {
		all = append(all, "file")
	}
	if unix.Kill(w.Process.Pid, 0) == nil && !w.isZombie() {
		all = append(all, "process")
	}
	return all
}

func (w *worker) isZombie() bool {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", w.Process.Pid)) // not there: it has ended
	return strings.Contains(string(text), ") Z ")
}

// What belongs to a directory of plain processes is removed with it, and nothing else.
func TestBelongings(t *testing.T) {
	_, dir := keeper(t)
	k := datadir.NewPlain(run, "native", dir)
	for name, end := range map[string]func(d *datadir.Dir, w *worker) error{
		"at work": func(*datadir.Dir, *worker) error { return nil },
		"killed": func(d *datadir.Dir, w *worker) error {
			err := errors.Join(d.Note(w.Process.Pid), d.Note(w.Process.Pid), w.Process.Kill())
			_, waited := w.Process.Wait()
			return errors.Join(err, waited)
		},
		"of a dead run": func(_ *datadir.Dir, w *worker) error {
			other := datadir.NewPlain(run, "other", dir) // the run's engine that lists the process need not be the directory's
			return errors.Join(other.NoteWorker(run, w.Process.Pid), syscall.Kill(w.Process.Pid, syscall.SIGKILL))
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := k.Take(bench.Spec{Storage: "bind"})
			if err != nil {
				t.Fatal(err)
			}
			w := startWorker(t, d.Path, datadir.RunVariable+"="+run)
			visitor := startWorker(t, d.Path, "HOME=/")
			if err := end(d, w); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(d.Remove(), d.Remove()); err != nil {
				t.Errorf("Remove: %v", err)
			}
			if left := w.left(); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
			if left := visitor.left(); len(left) != 3 {
				t.Errorf("of somebody who looks around only %q is left", left)
			}
			empty(t, filepath.Join(dir, "data-native"))
		})
	}
}

// The directory of a container is not looked into: its processes have their own shared memory.
func TestNoBelongings(t *testing.T) {
	k, _ := keeper(t)
	d := take(t, k, "")
	w := startWorker(t, d.Path, datadir.RunVariable+"="+run)
	if err := errors.Join(d.Note(w.Process.Pid), d.Remove()); err != nil {
		t.Error(err)
	}
	if left := w.left(); len(left) != 3 {
		t.Errorf("of a process that tare did not start only %q is left", left)
	}
	var none *datadir.Dir
	if err := none.Note(w.Process.Pid); err != nil {
		t.Errorf("Note for no directory: %v", err)
	}
}

// A record that cannot be read is an error, and nothing is removed.
func TestBrokenRecord(t *testing.T) {
	_, dir := keeper(t)
	k := datadir.NewPlain(run, "native", dir)
	d, err := k.Take(bench.Spec{Storage: "bind"})
	if err != nil {
		t.Fatal(err)
	}
	record := d.Path + ".shm"
	if err := os.WriteFile(record, []byte("[{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.Remove(); err == nil || !strings.Contains(err.Error(), "record of what belongs to "+d.Path) {
		t.Errorf("Remove = %v, want an error that names the record", err)
	}
	if err := errors.Join(os.Remove(record), d.Remove()); err != nil {
		t.Error(err)
	}
}
