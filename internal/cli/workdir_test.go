package cli_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What a command was making when it was killed is found again: among temporary files
// by 'tare clean', and beside an output by the next 'tare pack'.
func TestKilledWorkIsRemoved(t *testing.T) {
	p := newTestEnv(t)
	p.env = append(p.env, "TMPDIR="+filepath.Join(p.dir, "tmp"))
	out := filepath.Join(p.dir, "out")
	for _, dir := range []string{"tmp", "out"} {
		if err := os.Mkdir(filepath.Join(p.dir, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"image", "host:sh"}, {"pack", "sh", "-o", filepath.Join(out, "sh.tar")}} {
		for try := 1; !p.killWorking(t, args...); try++ { // it had ended before
			if try == 20 {
				t.Fatalf("%v was not killed while it worked, %d times", args, try)
			}
			if err := errors.Join(os.RemoveAll(out), os.Mkdir(out, 0o700)); err != nil {
				t.Fatal(err)
			}
		}
	}
	foreign := filepath.Join(p.dir, "tmp", ".tare-work-of-mine") // has no lock
	if err := os.Mkdir(foreign, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, did := range []string{"would remove", "removed"} {
		args := []string{"clean", "--dry-run"}
		if did == "removed" {
			args = args[:1]
		}
		if result := p.must(t, args...); !strings.HasPrefix(result.stdout, did+" directory "+
			filepath.Join(p.dir, "tmp", ".tare-work-")) || strings.Contains(result.stdout, "of run") {
			t.Errorf("clean: %s%s", result.stdout, result.stderr)
		}
	}
	if left, err := os.ReadDir(filepath.Join(p.dir, "tmp")); err != nil || len(left) != 1 {
		t.Errorf("among temporary files: %v, %v", left, err)
	}
	if left, err := os.ReadDir(out); err != nil || len(left) != 1 {
		t.Errorf("beside the output: %v, %v, want one directory", left, err)
	}
	p.must(t, "pack", "sh", "-o", filepath.Join(out, "sh.tar"))
	if left, err := os.ReadDir(out); err != nil || len(left) != 1 || left[0].Name() != "sh.tar" {
		t.Errorf("after the next one: %v, %v", left, err)
	}
	p.nothingLeft(t)
}

// killWorking kills a command as soon as it has a directory to work in; false = it had none, or had ended before.
func (p *testEnv) killWorking(t *testing.T, args ...string) bool {
	t.Helper()
	r, w, err := os.Pipe() // nobody reads it: what is written to it waits
	if err != nil {
		t.Fatal(err)
	}
	cmd := p.command(args...)
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	parent, output, seen := "tmp", args[len(args)-1], false
	if strings.HasSuffix(output, ".tar") {
		parent = "out"
	}
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(output); err == nil {
			break // it has ended, or is about to
		}
		// the lock, and the work
		made, _ := filepath.Glob(filepath.Join(p.dir, parent, ".tare-work-*", "*"))
		if seen = len(made) > 1; seen {
			break
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	killed := cmd.Wait() != nil
	shut(t, r, w)
	_, err = os.Stat(output)
	return seen && killed && err != nil
}

func shut(t *testing.T, all ...*os.File) {
	t.Helper()
	for _, f := range all {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}
