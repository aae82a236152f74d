package builder

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/bench"
)

var update = flag.Bool("update", false, "write the golden file")

// read feeds what a command has printed to the reader of its format, each line 10 ms after the one
// before.
func read(t testing.TB, f Format, stdout, stderr string) (progress, []bench.BuildStep) {
	t.Helper()
	var at time.Duration
	now := func() time.Duration { return at }
	out := &output{progress: Command{Format: f}.reader(0), now: now, left: maxOutput, full: func() { t.Error("too much") }}
	for i, text := range []string{stdout, stderr} {
		s := &stream{to: out, stderr: i == 1, most: Command{Format: f}.longest()}
		for line := range strings.SplitAfterSeq(text, "\n") {
			at += 10 * time.Millisecond
			if _, err := s.Write([]byte(line)); err != nil {
				t.Fatal(err)
			}
		}
		s.flush()
	}
	return out.progress, out.progress.finish(at)
}

func transcript(t *testing.T, name, stream string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+stream))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(text)
}

var formats = map[string]Format{"classic": Classic, "podman": Podman, "plain": BuildKit, "json": JSON}

// What docker 20.10 and 28.2, buildx 0.13 and podman 4.3 printed when they built one file.
func TestTranscripts(t *testing.T) {
	var got bytes.Buffer
	for _, name := range []string{"classic", "plain", "json", "podman"} {
		for _, how := range []string{"cold", "warm"} {
			file := name + "-" + how
			_, steps := read(t, formats[name], transcript(t, file, ".out"), transcript(t, file, ".err"))
			fmt.Fprintln(&got, file)
			for _, s := range steps {
				fmt.Fprintf(&got, "  %-10s cached=%-5v %-10v %s\n", s.Kind, s.Cached, s.Took, s.Text)
			}
		}
	}
	golden := filepath.Join("testdata", "steps.golden")
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A line of JSON can hold much output of a step beside what became of the step.
func TestLongObject(t *testing.T) {
	log := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("output\n"), 100_000))
	line := `{"vertexes":[{"digest":"d","name":"[2/2] RUN x","started":"2026-11-30T10:00:00Z",` +
		`"completed":"2026-11-30T10:00:02Z"}],"logs":[{"vertex":"d","data":"` + log + `"}]}` + "\n"
	_, steps := read(t, JSON, "", line)
	if len(steps) != 1 || steps[0].Took != 2*time.Second {
		t.Errorf("steps %+v", steps)
	}
}

// The error of a failed step names it, says why it failed, and has what it printed last.
func TestFailures(t *testing.T) {
	ended := errors.New("exit status 1")
	for name, want := range map[string]string{
		"classic": `RUN ["/tare-agent", "exit", "3"]: exit status 1: ` +
			`The command '/tare-agent exit 3' returned a non-zero code: 3`,
		"plain": `[stage-1 2/3] RUN ["/tare-agent", "exit", "3"]: exit status 1: ` +
			`executor failed running [/tare-agent exit 3]: exit code: 3`,
		"json": `[stage-1 2/3] RUN ["/tare-agent", "exit", "3"]: exit status 1: ` +
			`ERROR: failed to solve: executor failed running [/tare-agent exit 3]: exit code: 3`,
		"podman": `RUN ["/tare-agent", "exit", "3"]: exit status 1: ` +
			`building at STEP "RUN /tare-agent exit 3": while running runtime: exit status 3`,
	} {
		p, _ := read(t, formats[name], transcript(t, name+"-fail", ".out"), transcript(t, name+"-fail", ".err"))
		if got := p.failure(ended); !strings.HasPrefix(got.Error(), want) || !errors.Is(got, ended) {
			t.Errorf("%s: %v\nwant %s", name, got, want)
		}
	}
	p, _ := read(t, Classic, "Step 1/1 : RUN x\n ---> Running in 1\n\x1b[91mone\x1b[0m\ntwo\nthree\x1b]0;title\x07\n"+
		strings.Repeat("é", 250)+strings.Repeat("è", 250)+"\n", "The command 'x' returned a non-zero code: 1\n")
	got := p.failure(ended).Error()
	want := `; it printed last: two | three\x1b]0;title\x07 | ` + strings.Repeat("é", saidWidth/2) + "…" +
		strings.Repeat("è", saidWidth/2)
	if !strings.HasSuffix(got, want) || strings.ContainsRune(got, '\x1b') {
		t.Errorf("%s\nwant an end of %s", got, want)
	}
}

// A program of a step that prints lines like those of a builder is not taken for the builder.
func TestForged(t *testing.T) {
	for name, text := range map[string]string{
		"classic": "Step 1/2 : FROM x\n ---> 1\nStep 2/2 : RUN y\n ---> Running in 2\nStep 2/2 : RUN z\nStep 1/9 : RUN z\n" +
			" ---> Using cache\nStep 99/2 : COPY a b\n ---> 3\nSuccessfully built 3\nStep 3/2 : RUN late\n",
		"podman": "STEP 1/2: FROM x\nSTEP 2/2: RUN y\nSTEP 2/2: RUN z\nSTEP 1/9: RUN z\n--> Using cache\n" +
			"COMMIT name\nSTEP 3/2: RUN late\n",
		"plain": "#1 [1/2] FROM x\n#1 DONE 0.0s\n#2 [2/2] RUN y\n#2 0.1 #2 CACHED\n#2 0.2 #3 [3/3] RUN z\n#2 DONE 0.3s\n",
	} {
		_, steps := read(t, formats[name], text, "")
		runs := 0
		for _, s := range steps {
			if s.Cached || s.Kind == bench.StepCopy {
				t.Errorf("%s: %+v", name, s)
			}
			if s.Kind == bench.StepRun {
				runs++
			}
		}
		if runs != 1 {
			t.Errorf("%s: %d steps that run, want 1: %+v", name, runs, steps)
		}
	}
}

func shell(script string) Command {
	return Command{Argv: []string{"/bin/sh", "-c", script}, Env: os.Environ(), Stop: syscall.SIGKILL}
}

func now() time.Duration { return time.Duration(time.Now().UnixNano()) }

// A command that hangs is ended with all that it has started, and the error says in which step.
func TestHangs(t *testing.T) {
	child := filepath.Join(t.TempDir(), "child")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		for !exists(child) {
			time.Sleep(time.Millisecond)
		}
		cancel(bench.ErrOpTime)
	}()
	_, err := shell("echo 'Step 1/1 : RUN wait'; sleep 1000 & echo $! >"+child+".new; mv "+child+".new "+child+"; wait").
		Run(ctx, now)
	if !errors.Is(err, bench.ErrOpTime) || !strings.Contains(err.Error(), "RUN wait") {
		t.Errorf("%v, want the limit and the step", err)
	}
	ends(t, child)
}

// ends waits until the process whose number is in a file has ended.
func ends(t *testing.T, file string) {
	t.Helper()
	var pid int
	text, err := os.ReadFile(file)
	if _, scanErr := fmt.Sscan(string(text), &pid); err != nil || scanErr != nil {
		t.Fatal(err, scanErr)
	}
	for range 5000 {
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || state(pid) == "Z" {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Errorf("process %d still runs", pid)
}

// A command does not outlive a tare that is killed.
func TestTareDies(t *testing.T) {
	const variable = "TARE_TEST_BUILD"
	if file := os.Getenv(variable); file != "" {
		_, err := shell("echo $$ >"+file+".new; mv "+file+".new "+file+"; exec sleep 1000").Run(t.Context(), now)
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "command")
	tare := exec.Command(os.Args[0], "-test.run=^TestTareDies$")
	tare.Env = append(os.Environ(), variable+"="+file)
	if err := tare.Start(); err != nil {
		t.Fatal(err)
	}
	for !exists(file) {
		time.Sleep(time.Millisecond)
	}
	if err := tare.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = tare.Wait() // it was killed
	ends(t, file)
}

func exists(file string) bool { _, err := os.Stat(file); return err == nil }

func state(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // empty if it has ended
	_, rest, _ := strings.Cut(string(text), ") ")
	return rest[:min(1, len(rest))]
}

// A command that prints without end is ended.
func TestPrintsWithoutEnd(t *testing.T) {
	_, err := shell("exec cat /dev/zero").Run(t.Context(), now)
	if !errors.Is(err, errTooMuch) {
		t.Errorf("%v, want %v", err, errTooMuch)
	}
}

func TestRun(t *testing.T) {
	steps, err := shell("printf 'Step 1/2 : FROM x\\nStep 2/2 : RUN y'").Run(t.Context(), now)
	if err != nil || len(steps) != 3 || steps[2].Text != "RUN y" {
		t.Errorf("%+v, %v", steps, err)
	}
	if _, err := shell("echo no >&2; exit 3").Run(t.Context(), now); err == nil || err.Error() != "exit status 3: no" {
		t.Errorf("%v, want the status and what it said", err)
	}
	if _, err := (Command{Argv: []string{"/does/not/exist"}}).Run(t.Context(), now); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v, want that there is no such program", err)
	}
}

func TestVersion(t *testing.T) {
	for text, want := range map[string]string{
		"Docker version 20.10.24+dfsg1, build 297e128": "20.10.24+dfsg1", "Docker version v28.2": "28.2", "Docker": "",
		"Docker version 99999999999999999999.1": "",
	} {
		if got := VersionIn(text, "version "); got.String() != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	v := VersionIn("github.com/docker/buildx 0.13.1+ds1 0.13.1+ds1-3", "buildx ")
	if v.Before(0, 13) || !v.Before(0, 14) || !v.Before(1, 0) {
		t.Errorf("%+v is not between 0.13 and 0.14", v)
	}
}

// An image goes after those that were made of it, also where their times are the same.
func TestRemaining(t *testing.T) {
	parent := map[string]string{"c": "b", "b": "a"}
	there := map[string]bool{"a": true, "b": true, "c": true}
	remaining := Remaining{}
	for id := range there {
		remaining.Add(id, 1)
	}
	err := remaining.Remove(func(id string) error {
		for child, of := range parent {
			if of == id && there[child] {
				return errors.New("it has a child")
			}
		}
		delete(there, id)
		return nil
	})
	if err != nil || len(there) > 0 {
		t.Errorf("%v remain, %v", there, err)
	}
	stuck := Remaining{}
	stuck.Add("x", 1)
	if err := stuck.Remove(func(string) error { return os.ErrInvalid }); !errors.Is(err, os.ErrInvalid) {
		t.Errorf("%v", err)
	}
}

func FuzzProgress(f *testing.F) {
	for name, format := range formats {
		for _, stream := range []string{".out", ".err"} {
			if text, err := os.ReadFile(filepath.Join("testdata", name+"-cold"+stream)); err == nil {
				f.Add(int(format), string(text))
			}
		}
	}
	f.Fuzz(func(t *testing.T, format int, text string) {
		if format < 0 || format > int(JSON) {
			return
		}
		for i := range 2 {
			streams := [2]string{}
			streams[i] = text
			p, steps := read(t, Format(format), streams[0], streams[1])
			for _, s := range steps {
				if s.Took < 0 || s.Cached && s.Took > 0 {
					t.Errorf("%+v", s)
				}
			}
			if got := p.failure(os.ErrInvalid).Error(); len(got) > 4*saidWidth*(saidLines+3) || strings.Contains(got, "\n") {
				t.Errorf("an error of %d bytes: %.100q", len(got), got)
			}
		}
	})
}
