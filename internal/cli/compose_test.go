package cli_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/report"
)

// composable are the engines of this machine that compose can use, with their programs.
func composable(t *testing.T) (engines []string) {
	t.Helper()
	for _, engine := range usable(t, "docker", "podman") {
		_, err := exec.LookPath(engine + "-compose")
		enginetest.Require(t, engine, err)
		engines = append(engines, engine)
	}
	return engines
}

// The built-in experiment says for each engine what compose adds.
func TestCompose(t *testing.T) {
	t.Parallel() // it asserts no time
	p := newTestEnv(t)
	var d report.Document
	decode(t, p.must(t, "run", "compose", "--json", "--engine", strings.Join(composable(t), ","), "--blocks", "1",
		"--warmup", "0", "--precision", "off", "--no-control", "--washout", "off", "--param", "services=2").stdout, &d)
	for _, name := range []string{"up", "down", "up.command", "up.first"} {
		wantValues(t, d, name, nil)
	}
	p.nothingLeft(t)
}

// Compose goes on when tare is killed. Clean ends it, and finds all that it has made until then.
func TestComposeKilled(t *testing.T) {
	t.Parallel() // it asserts no time
	for _, engine := range composable(t) {
		t.Run(engine, func(t *testing.T) {
			p := newTestEnv(t)
			r := p.begin(t, "run", "compose", "--engine", engine, "--tool", "compose", "--blocks", "6", "--warmup", "0",
				"--washout", "off", "--param", "services=8")
			p.await(t, r, 0)
			id := p.last(t).Header.ID
			pid := awaitProcess(t, r, "tare-"+id, " up -d")
			compose := syscall.Kill(pid, syscall.SIGSTOP) // else it may be done before clean looks
			if err := errors.Join(compose, r.cmd.Process.Kill()); err != nil {
				t.Fatal(err)
			}
			r.end(t)
			if clean := p.must(t, "clean"); !strings.Contains(clean.stdout, "process") {
				t.Errorf("clean has ended no process:\n%s", clean.stdout)
			}
			_ = syscall.Kill(pid, syscall.SIGCONT) // if it is still there
			time.Sleep(time.Second)                // for what would go on
			p.nothingLeft(t)
			if engine == "podman" {
				nothingInPodman(t, id)
			}
		})
	}
}

// awaitProcess waits until there is a process whose command line has all of these words, and returns its number.
func awaitProcess(t *testing.T, r *process, words ...string) (pid int) {
	t.Helper()
	for until := time.Now().Add(testTimeout); time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
		for pid, line := range commandLines() {
			missing := false
			for _, word := range words {
				missing = missing || !strings.Contains(line, word)
			}
			if !missing {
				return pid
			}
		}
	}
	t.Fatalf("no process has %q; tare said:\n%s", words, &r.stderr)
	return 0
}

// nothingInPodman wants no object of a run in Podman.
func nothingInPodman(t *testing.T, id string) {
	t.Helper()
	for _, list := range []string{"ps --all", "network ls", "volume ls", "pod ls", "images"} {
		text, err := exec.Command("podman", strings.Fields(list)...).Output()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), id) {
			t.Errorf("left in podman %s:\n%s", list, text)
		}
	}
}

// commandLines are those of all processes.
func commandLines() map[int]string {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is right
	all := map[int]string{}
	for _, file := range files {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		text, _ := os.ReadFile(file) // it may have ended
		all[pid] = strings.ReplaceAll(string(text), "\x00", " ")
	}
	return all
}
