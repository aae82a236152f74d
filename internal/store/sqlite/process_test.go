package sqlite_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/store/record"
	"github.com/tare-bench/tare/internal/store/sqlite"
	"github.com/tare-bench/tare/internal/store/storetest"
)

// The test binary is also the other process of the tests below.
func TestMain(m *testing.M) {
	if task := os.Getenv("TARE_TEST_TASK"); task != "" {
		os.Exit(child(task, os.Args[1], os.Args[2]))
	}
	os.Exit(m.Run())
}

const childSamples = 400

func child(task, path, id string) int {
	tasks := map[string]func(ctx context.Context, path, id string) error{
		"append": childAppend, "copy": childCopy, "read": childRead,
	}
	if err := tasks[task](context.Background(), path, id); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// childAppend appends, and prints the number of each sample that is stored. It
// ends only by being killed, which a busy machine can be late with.
func childAppend(ctx context.Context, path, id string) error {
	s, err := sqlite.Open(ctx, path)
	if err != nil {
		return err
	}
	run := storetest.Example(id, childSamples)
	w, err := s.Create(ctx, run.Header)
	if err != nil {
		return err
	}
	for i, sample := range run.Samples {
		if err := w.Append(ctx, sample); err != nil {
			return err
		}
		fmt.Println(i)
	}
	time.Sleep(time.Minute)
	return errors.New("nobody killed it")
}

func childCopy(ctx context.Context, path, id string) error {
	s, err := sqlite.Open(ctx, path)
	if err != nil {
		return err
	}
	if err := record.Copy(ctx, s, storetest.Example(id, 100)); err != nil {
		return err
	}
	return s.Close()
}

// childRead checks what a user can do who may not write.
func childRead(ctx context.Context, path, id string) error {
	s, err := sqlite.Open(ctx, path)
	if err != nil {
		return err
	}
	run, err := s.Open(ctx, id)
	if err != nil {
		return err
	}
	_, err = s.Create(ctx, storetest.Example("b", 1).Header)
	fmt.Println(len(run.Samples), err)
	return s.Close()
}

func command(t *testing.T, task, path, id string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, path, id)
	cmd.Env = append(os.Environ(), "TARE_TEST_TASK="+task)
	return cmd
}

// A process that is killed at any instant leaves a prefix, with everything
// that it was told is stored.
func TestKilledWriterLeavesAPrefix(t *testing.T) {
	for _, after := range []int{0, 1, 17, 130, 300} {
		path := filepath.Join(t.TempDir(), "tare.db")
		told := killAfter(t, command(t, "append", path, "a"), after)
		s := open(t, path)
		whole := storetest.Example("a", childSamples)
		stored := wantPrefix(t, s, whole)
		if stored < told || stored > told+1 {
			t.Errorf("killed after %d samples: %d are stored", told, stored)
		}
		w, err := s.Resume(t.Context(), "a", bench.Resumption{Time: whole.Header.Began, Seq: stored})
		if err != nil {
			t.Fatal(err)
		}
		for _, sample := range whole.Samples[stored:] {
			if err := w.Append(t.Context(), sample); err != nil {
				t.Fatal(err)
			}
		}
		if n := wantPrefix(t, s, whole); n != childSamples {
			t.Errorf("%d samples after resuming, want %d", n, childSamples)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		closeOrFail(t, s)
	}
}

// killAfter kills a child as soon as it has printed that many lines, and
// returns how many it printed.
func killAfter(t *testing.T, cmd *exec.Cmd, lines int) int {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	printed := 0
	scanner := bufio.NewScanner(out)
	for scanner.Scan() {
		if printed++; printed > lines {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	for scanner.Scan() { // what was on its way
		printed++
	}
	if err := cmd.Wait(); err == nil {
		t.Fatalf("the child ended by itself after %d samples", printed)
	}
	return printed
}

// Several processes begin with no store at all and write at once.
func TestProcessesShareAStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sub", "tare.db")
	var children []*exec.Cmd
	var messages []*strings.Builder
	for i := range 6 {
		cmd, message := command(t, "copy", path, "run-"+strconv.Itoa(i)), &strings.Builder{}
		cmd.Stderr = message
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		children, messages = append(children, cmd), append(messages, message)
	}
	for i, cmd := range children {
		if err := cmd.Wait(); err != nil {
			t.Errorf("process %d: %v: %s", i, err, messages[i])
		}
	}
	s := open(t, path)
	defer closeOrFail(t, s)
	for i := range children {
		wantRun(t, s, storetest.Example("run-"+strconv.Itoa(i), 100))
	}
}

// Somebody who may read the file but write neither it nor its directory can
// list and show. Root may write everything, so it runs as nobody.
func TestAnotherUsersStore(t *testing.T) {
	for _, tt := range []struct {
		name       string
		file, dir  fs.FileMode
		writing    bool // while somebody else is writing
		wantCreate string
	}{
		{"nothing can be written", 0o444, 0o555, false, "permission denied"},
		{"only the file can be written", 0o666, 0o555, false, "permission denied"},
		{"only the directory can be written", 0o444, 0o777, false, "permission denied"},
		{"while its owner writes", 0o444, 0o555, true, "permission denied"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := publicDir(t)
			path := filepath.Join(root, "tare.db")
			s := open(t, path)
			run := storetest.Example("a", 50)
			if err := record.Copy(t.Context(), s, run); err != nil {
				t.Fatal(err)
			}
			if tt.writing {
				defer closeOrFail(t, s)
				for _, name := range []string{path + "-wal", path + "-shm"} {
					chmod(t, name, tt.file)
				}
			} else {
				closeOrFail(t, s)
			}
			chmod(t, path, tt.file)
			chmod(t, root, tt.dir)
			defer chmod(t, root, 0o755)
			cmd := command(t, "read", path, "a")
			asNobody(t, cmd)
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.HasPrefix(string(out), "50 ") || !strings.Contains(string(out), tt.wantCreate) {
				t.Errorf("%v: %s; want 50 samples and %q", err, out, tt.wantCreate)
			}
		})
	}
}

func chmod(t *testing.T, path string, mode fs.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

// publicDir returns a directory that others can reach, as t.TempDir is not.
func publicDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "tare-store-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	chmod(t, dir, 0o755)
	return dir
}

// asNobody makes a command run without root's powers. The test binary may lie
// where nobody can reach it, so it is copied.
func asNobody(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if os.Geteuid() != 0 {
		return // the modes hold for us
	}
	b, err := os.ReadFile(cmd.Path)
	if err != nil {
		t.Fatal(err)
	}
	exe := filepath.Join(publicDir(t), "child")
	if err := os.WriteFile(exe, b, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd.Path, cmd.Dir = exe, "/"
	const nobody = 65534
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
}
