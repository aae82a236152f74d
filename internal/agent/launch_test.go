package agent_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/agent"
)

// template makes a directory with data for a launcher: a large file, an empty one and a directory.
func template(t *testing.T) (dir string, bytes int64) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "template")
	large := strings.Repeat("0123456789abcdef", 200_000) // more than the launcher reads at once
	for name, text := range map[string]string{"large": large, "empty": "", "sub/small": "text\n"} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return dir, int64(len(large) + len("text\n"))
}

// launchUser is who the launched program runs as where the test may choose.
const launchUser = "54321:54322"

// passable lets every user pass to the files of the test, in the directory for temporary files. What that lies in, and
// anything elsewhere, is not the test's.
func passable(t *testing.T, dir string) {
	t.Helper()
	for d := dir; strings.HasPrefix(d, os.TempDir()+"/"); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o711); err != nil {
			t.Fatal(err)
		}
	}
}

// The copy has the same content with modes and owner of its own; the program runs with what was asked,
// once it has had the word.
func TestLaunch(t *testing.T) {
	from, size := template(t)
	to := filepath.Join(t.TempDir(), "data")
	passable(t, filepath.Dir(to))
	passable(t, filepath.Dir(binary))
	l := agent.Launch{
		Template: from, Target: to, User: launchUser, CPUs: "0", Files: 77, OOM: "500", Cold: true, Wait: true,
	}
	argv := l.Argv(binary, binary, "facts")
	if program, ok := agent.LaunchedBy(argv); !ok || program != binary {
		t.Errorf("LaunchedBy(%q) = %q, %v", argv, program, ok)
	}
	p := start(t, argv[1:]...)
	line, err := p.out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	done, err := agent.ParsePrepared(line)
	if err != nil {
		t.Fatal(err)
	}
	uid, gid := os.Getuid(), os.Getgid()
	if uid == 0 {
		uid, gid = 54321, 54322
	}
	times := done.Began > 0 && done.Copied >= done.Began && done.Synced >= done.Copied
	done.Began, done.Copied, done.Synced = 0, 0, 0
	want := agent.Prepared{Bytes: size, Copies: 3, UID: uid, GID: gid, CPUs: "0", Files: 77, OOM: 500}
	if diff := cmp.Diff(want, done); diff != "" || !times {
		t.Errorf("Prepared, times in order: %v (-want +got):\n%s", times, diff)
	}
	sameFiles(t, from, to, uid, gid)
	p.signal(t, agent.LaunchSignal)
	line, err = p.out.ReadString('\n')
	if now, bad := agent.ParseExecuting(line); err != nil || bad != nil || now.At <= 0 {
		t.Fatalf("Executing = %+v, %v", now, errors.Join(err, bad))
	}
	facts := readFacts(t, p.out)
	if facts.UID != uid || facts.GID != gid || facts.Files != 77 || facts.OOM != 500 ||
		!slices.Contains(facts.Argv, "facts") {
		t.Errorf("the program has %+v", facts)
	}
	if code := p.exitStatus(t); code != 0 {
		t.Errorf("the program's exit status is %d", code)
	}
}

// sameFiles checks the copy of a directory: everything is there, only its user may read it, and no
// block of it is missing or shared.
func sameFiles(t *testing.T, from, to string, uid, gid int) {
	t.Helper()
	err := filepath.WalkDir(from, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		copied := filepath.Join(to, strings.TrimPrefix(name, from))
		info, err := os.Stat(copied)
		if err != nil {
			return err
		}
		st := info.Sys().(*syscall.Stat_t)
		mode := fs.FileMode(0o600)
		if e.IsDir() {
			mode = fs.ModeDir | 0o700
		}
		if info.Mode() != mode || int(st.Uid) != uid || int(st.Gid) != gid {
			t.Errorf("%s: %v of %d:%d, want %v of %d:%d", copied, info.Mode(), st.Uid, st.Gid, mode, uid, gid)
		}
		if e.IsDir() {
			return nil
		}
		a, err1 := os.ReadFile(name)
		b, err2 := os.ReadFile(copied)
		if string(a) != string(b) || st.Blocks*512 < st.Size {
			t.Errorf("%s: %d bytes in %d blocks are not the %d of the template", copied, len(b), st.Blocks, len(a))
		}
		return errors.Join(err1, err2)
	})
	if err != nil {
		t.Error(err)
	}
}

func readFacts(t *testing.T, out *bufio.Reader) agent.Facts {
	t.Helper()
	line, err := out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var f agent.Facts
	if err := json.Unmarshal([]byte(line), &f); err != nil {
		t.Fatalf("%v in %.200q", err, line)
	}
	return f
}

// What fails is named with its step, and the program does not run.
func TestLaunchFails(t *testing.T) {
	from, _ := template(t)
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "with a link")
	if err := errors.Join(os.Mkdir(link, 0o755), os.Symlink("/etc/passwd", filepath.Join(link, "link"))); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		launch  agent.Launch
		program string
		want    string
	}{
		"target exists": {agent.Launch{Template: from, Target: dir}, "/bin/true", "copy " + from + " to " + dir + ": mkdir"},
		"no template":   {agent.Launch{Template: dir + "/no", Target: dir + "/a"}, "/bin/true", "copy " + dir + "/no"},
		"a link": {
			agent.Launch{Template: link, Target: dir + "/b"}, "/bin/true", "is neither a file nor a directory",
		},
		"no such CPU":      {agent.Launch{CPUs: "9999"}, "/bin/true", "pin to CPUs 9999: "},
		"no such program":  {agent.Launch{}, dir + "/program", "execute " + dir + "/program: "},
		"relative program": {agent.Launch{}, "true", "usage:"},
		"target missing":   {agent.Launch{Template: from}, "/bin/true", "usage:"},
		"not a user":       {agent.Launch{User: "postgres"}, "/bin/true", "usage:"},
		"not CPUs":         {agent.Launch{CPUs: "x"}, "/bin/true", "usage:"},
	} {
		out, err := exec.Command(binary, test.launch.Argv(binary, test.program)[1:]...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), test.want) {
			t.Errorf("%s: %q, %v; want an error with %q", name, out, err, test.want)
		}
	}
}

// An empty target is a directory for a program that makes data.
func TestLaunchEmpty(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	argv := agent.Launch{Target: dir}.Argv(binary, "/bin/sh", "-c", "ls -A "+dir+" | wc -l")
	out, err := exec.Command(argv[0], argv[1:]...).Output()
	lines := strings.Split(string(out), "\n")
	if err != nil || len(lines) != 4 || strings.TrimSpace(lines[2]) != "0" {
		t.Errorf("%q, %v; want two lines of the launcher, and no file", out, err)
	}
}

// SIGTERM ends a launcher that waits.
func TestLaunchTerminated(t *testing.T) {
	p := start(t, agent.Launch{Wait: true}.Argv(binary, "/bin/true")[1:]...)
	if _, err := p.out.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	p.signal(t, syscall.SIGTERM)
	if code := p.exitStatus(t); code != 128+15 {
		t.Errorf("exit status %d, want 143", code)
	}
}

func FuzzParsePrepared(f *testing.F) {
	f.Add("tare-launch v1 prepared {\"bytes\":1}\n")
	f.Add("tare-launch v1 executing {\"at_ns\":1}\n")
	f.Fuzz(func(t *testing.T, line string) {
		if _, err := agent.ParsePrepared(line); err != nil && !errors.Is(err, agent.ErrLaunch) {
			t.Errorf("ParsePrepared: %v", err)
		}
		if _, err := agent.ParseExecuting(line); err != nil && !errors.Is(err, agent.ErrLaunch) {
			t.Errorf("ParseExecuting: %v", err)
		}
	})
}
