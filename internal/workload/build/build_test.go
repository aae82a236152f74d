package build

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/run"
	"github.com/tare-bench/tare/internal/workload/workloadtest"
)

// A fakeBuilder is an engine that reads build files and makes nothing of them.
type fakeBuilder struct {
	*enginetest.Fake
	cold, warm []bench.BuildStep
	failure    error  // of each Build
	label      string // of the image, in place of the file's
	stays      error  // of each RemoveBuild
	hangs      bool
	none       error // of BuildTool

	files   []string // of each Build
	built   []bench.Build
	removed []string
}

func newBuilder() *fakeBuilder {
	return &fakeBuilder{
		Fake: enginetest.NewFake(enginetest.FakeConfig{Now: run.Monotonic()}),
		cold: []bench.BuildStep{
			{Kind: bench.StepContext, Took: 1 * time.Second},
			{Kind: bench.StepBase, Text: "FROM x", Cached: true},
			{Kind: bench.StepRun, Text: "RUN a", Took: 2 * time.Second},
			{Kind: bench.StepRun, Text: "RUN b", Took: 3 * time.Second},
			{Kind: bench.StepCopy, Took: 4 * time.Second},
			{Kind: bench.StepStage, Took: 5 * time.Second},
			{Kind: bench.StepOther, Took: 6 * time.Second},
			{Kind: bench.StepExport, Took: 7 * time.Second},
		},
		warm: []bench.BuildStep{{Kind: bench.StepRun, Cached: true}},
	}
}

func (f *fakeBuilder) BuildTool(context.Context, string) (string, error) { return "fake 1", f.none }

func (f *fakeBuilder) Build(ctx context.Context, b bench.Build, _ func() time.Duration) ([]bench.BuildStep, error) {
	text, err := os.ReadFile(b.File)
	f.files, f.built = append(f.files, string(text)), append(f.built, b)
	if f.hangs {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	if b.Cached {
		return f.warm, errors.Join(err, f.failure)
	}
	return f.cold, errors.Join(err, f.failure)
}

func (f *fakeBuilder) Built(_ context.Context, b bench.Build) (bench.BuiltImage, error) {
	if f.label != "" {
		return bench.BuiltImage{Label: f.label}, nil
	}
	return bench.BuiltImage{Label: b.Mark + "/2", Size: 1000}, nil
}

func (f *fakeBuilder) RemoveBuild(ctx context.Context, b bench.Build) error {
	f.removed = append(f.removed, b.Mark)
	return errors.Join(ctx.Err(), f.stays)
}

func (*fakeBuilder) Disk(context.Context) (bench.EngineDisk, error) {
	return bench.EngineDisk{Dirs: []string{"/var/lib/fake"}}, nil
}

func small() map[string]string { return map[string]string{"files": "3", "size": "10", "steps": "2"} }

// Each trial builds another file without a cache, then the same with it, and removes both.
func TestTrials(t *testing.T) {
	w, e := New(), newBuilder()
	for _, s := range (workloadtest.Trials{Workload: w, Engine: e, N: 2, Params: small()}).Run(t) {
		if s.Outcome != bench.OK || s.Applied.Builder != "fake 1" || len(s.Notes) > 0 {
			t.Fatalf("%s: %s; %+v, notes %q", s.Outcome, s.Reason, s.Applied, s.Notes)
		}
		v := workloadtest.Values(w, s)
		delete(v, Total)
		delete(v, Rebuild)
		want := map[string]float64{Context: 1, RunStep: 5, Copy: 4, Stage: 5, Other: 6, Export: 7, Size: 1000}
		if diff := cmp.Diff(want, v); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if len(e.built) != 4 || e.files[0] != e.files[1] || e.files[0] == e.files[2] || e.built[0].Cached || !e.built[1].Cached {
		t.Errorf("built %+v, want two files, each without and with the cache", e.built)
	}
	if len(e.removed) != 2 || e.removed[0] != e.built[0].Mark || bench.MarkedBy(e.removed[1]+"/") != "test" {
		t.Errorf("removed %q", e.removed)
	}
}

func TestFailures(t *testing.T) {
	for name, test := range map[string]struct {
		change    func(*fakeBuilder)
		operation string
		says      string
	}{
		"from the cache": {func(f *fakeBuilder) { f.cold[2].Cached = true }, "", "took a step from the cache: RUN a"},
		"nothing told":   {func(f *fakeBuilder) { f.cold = nil }, "", "output has no step"},
		"a step fails":   {func(f *fakeBuilder) { f.failure = errors.New("RUN a: exit status 1") }, Total, "exit status 1"},
		"a full disk": {
			func(f *fakeBuilder) { f.failure = errors.New("RUN dd: No space left on device") }, Total,
			"left on device: free some space where fake keeps what it has, in /var/lib/fake",
		},
		"another image":     {func(f *fakeBuilder) { f.label = "tare-build/test/old/2" }, "", `label "tare-build/test/old/2"`},
		"cannot be removed": {func(f *fakeBuilder) { f.stays = errors.New("in use") }, "clean-up", "in use"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newBuilder()
			test.change(e)
			s := workloadtest.Trials{Workload: New(), Engine: e, Params: small()}.Run(t)[0]
			if s.Outcome != bench.Failed || s.Operation != test.operation || !strings.Contains(s.Reason, test.says) ||
				len(e.removed) == 0 {
				t.Errorf("%s in %q: %s; removed %q", s.Outcome, s.Operation, s.Reason, e.removed)
			}
		})
	}
}

func TestNotes(t *testing.T) {
	e := newBuilder()
	e.warm[0].Cached, e.cold[2].Rounded = false, true
	s := workloadtest.Trials{Workload: New(), Engine: e, Params: small()}.Run(t)[0]
	if diff := cmp.Diff([]string{NoteRounded, NoteReran}, s.Notes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A build that hangs ends at the limit of the operation, and what it made is removed.
func TestHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newBuilder()
		e.hangs = true
		s := workloadtest.Trials{
			Workload: New(), Engine: e, Params: small(), Op: time.Second,
		}.Run(t)[0]
		if s.Outcome != bench.TimedOut || len(e.removed) == 0 {
			t.Errorf("%s: %s; removed %q", s.Outcome, s.Reason, e.removed)
		}
	})
}

func TestUnsupported(t *testing.T) {
	w := New()
	for says, task := range map[string]bench.Task{
		"builds no images: use docker or podman": workloadtest.Task(w, enginetest.NewFake(enginetest.FakeConfig{}), bench.Spec{}),
		"takes no image, network":                workloadtest.Task(w, newBuilder(), bench.Spec{Network: "host"}),
		"no such builder": workloadtest.Task(w, &fakeBuilder{none: errors.Join(bench.ErrUnsupported,
			errors.New("no such builder"))}, bench.Spec{}),
	} {
		if err := w.Check(t.Context(), task); !errors.Is(err, bench.ErrUnsupported) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %s", err, says)
		}
	}
}

func TestParams(t *testing.T) {
	for _, p := range New().Params() {
		if p.Valid(p.Default) != nil {
			t.Errorf("the default of %s: %v", p.Name, p.Valid(p.Default))
		}
		for _, bad := range map[string][]string{
			"builder": {"kaniko"}, "file": {"Dockerfile"}, "context": {"."}, "files": {"0", "1.5"}, "size": {"0", "5GiB"},
			"steps": {"1", "51"},
		}[p.Name] {
			if p.Valid(bad) == nil {
				t.Errorf("%s takes %q", p.Name, bad)
			}
		}
	}
	for _, m := range New().Metrics() {
		if m.Title == "" || !strings.HasSuffix(m.Doc, ".") {
			t.Errorf("%s says nothing", m.Name)
		}
	}
}

// A context may be a link, and nobody but the user can read the copy of it.
func TestContextIsPrivate(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()
	link := filepath.Join(dir, "link")
	for _, err := range []error{
		os.Mkdir(filepath.Join(dir, "shop"), 0o755), os.Symlink("shop", link),
		os.WriteFile(filepath.Join(dir, "shop", "Dockerfile"), []byte("FROM scratch\n"), 0o644),
		os.WriteFile(filepath.Join(dir, "shop", "key"), []byte("secret"), 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	params := map[string]string{}
	for _, p := range New().Params() {
		params[p.Name] = p.Default
	}
	for cell, from := range []string{"", link} {
		params["context"] = from
		task := bench.Task{Engine: newBuilder(), Run: "test", Dir: state, Cell: cell, Params: params}
		made, err := New().(bench.Fixturer).Setup(t.Context(), task)
		if err != nil {
			t.Fatalf("context %q: %v", from, err)
		}
		f := made.(*fixture)
		if text, err := os.ReadFile(filepath.Join(f.contextDir(), "key")); from != "" && string(text) != "secret" {
			t.Errorf("the copy has %q, %v", text, err)
		}
		info, err := os.Stat(f.dir)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o700 {
			t.Errorf("context %q: its place has mode %v, want 0700", from, info.Mode())
		}
	}
}

// A user's context is copied as it is; each trial has every file a second younger.
func TestOwnContext(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "sub", "run.sh")
	then := time.Now().Add(-time.Hour).Truncate(time.Second)
	for _, err := range []error{
		os.Mkdir(filepath.Dir(script), 0o755), os.Chmod(filepath.Dir(script), 0o777),
		os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755),
		os.Chtimes(script, then, then), os.Symlink("run.sh", filepath.Join(dir, "sub", "link")),
		os.WriteFile(filepath.Join(dir, "Containerfile"), []byte("FROM scratch\nCOPY . /\n"), 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	e := newBuilder()
	s := workloadtest.Trials{Workload: New(), Engine: e, Params: map[string]string{"context": dir}}.Run(t)[0]
	if s.Outcome != bench.OK || e.built[0].Base != "" || !strings.HasPrefix(e.files[0], "FROM scratch\nLABEL tare.run=\"test\" ") {
		t.Fatalf("%s: %s; %+v of %q", s.Outcome, s.Reason, e.built, e.files)
	}

	f := &fixture{options: options{context: dir}, run: "test", dir: t.TempDir()}
	if err := errors.Join(os.Mkdir(f.contextDir(), 0o755), f.fill(t.Context()), f.Reset(t.Context()), f.Reset(t.Context())); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(filepath.Join(f.contextDir(), "sub", "run.sh"))
	if err != nil || info.Mode() != 0o755 || !info.ModTime().Equal(then.Add(2*time.Second)) {
		t.Errorf("%v, %v", info, err)
	}
	if to, err := os.Readlink(filepath.Join(f.contextDir(), "sub", "link")); to != "run.sh" {
		t.Errorf("the link leads to %q, %v", to, err)
	}
	if info, err := os.Stat(filepath.Join(f.contextDir(), "sub")); err != nil || info.Mode().Perm() != 0o777 {
		t.Errorf("the directory has mode %v, %v; want that of the user's, whatever the umask", info.Mode(), err)
	}

	in := &fixture{options: options{context: dir}, run: "test", dir: filepath.Join(dir, "state")}
	if err := os.MkdirAll(in.contextDir(), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := in.fill(t.Context()); err == nil || !strings.Contains(err.Error(), "choose another with --state") {
		t.Errorf("a context with the run in it: %v", err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(in.dir); err != nil {
		t.Fatal(err)
	}
	g := &fixture{options: options{context: dir}, run: "test", dir: t.TempDir()}
	if err := errors.Join(os.Mkdir(g.contextDir(), 0o755), g.fill(t.Context())); err == nil || !strings.Contains(err.Error(), "pipe is neither a file") {
		t.Errorf("a pipe: %v", err)
	}
}

// What the user's build leaves out must not get into it because its list cannot be read.
func TestIgnoredFiles(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "Dockerfile")
	if err := os.WriteFile(file, []byte("FROM scratch\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for text, says := range map[string]string{"*.log\n": "", strings.Repeat("x\n", maxFile): "is longer than"} {
		if err := os.WriteFile(file+ignoreSuffix, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		f := &fixture{options: options{file: file}, run: "test", dir: t.TempDir()}
		err := errors.Join(os.Mkdir(f.contextDir(), 0o755), f.fill(t.Context()))
		if says != "" && (err == nil || !strings.Contains(err.Error(), says)) || says == "" && err != nil {
			t.Errorf("%d bytes: %v, want %q", len(text), err, says)
		}
		if got, err := os.ReadFile(f.buildFile() + ignoreSuffix); says == "" && string(got) != text {
			t.Errorf("the list for the build is %q, %v", got, err)
		}
	}
}

func TestMarkStages(t *testing.T) {
	const one, two = "LABEL tare.run=\"r\" tare.build=\"M/1\"\n", "LABEL tare.run=\"r\" tare.build=\"M/2\"\n"
	for name, test := range map[string]struct{ file, want, err string }{
		"one":          {"FROM a\nRUN b\n", "FROM a\n" + one + "RUN b\n", ""},
		"no newline":   {"FROM a", "FROM a\n" + one, ""},
		"stages":       {"ARG X\nfrom --platform=x a AS b\n\nFROM b\n", "ARG X\nfrom --platform=x a AS b\n" + one + "\nFROM b\n" + two, ""},
		"windows":      {"FROM a\r\nRUN b\r\n", "FROM a\r\n" + one + "RUN b\r\n", ""},
		"continued":    {"FROM \\\n # x\n\n a \\\n AS b\nRUN a \\\nFROM c\n", "FROM \\\n # x\n\n a \\\n AS b\n" + one + "RUN a \\\nFROM c\n", ""},
		"escape":       {"# escape=`\nFROM a `\n AS b\nRUN c \\\nFROM d\n", "# escape=`\nFROM a `\n AS b\n" + one + "RUN c \\\nFROM d\n" + two, ""},
		"comment":      {"# FROM x \\\nFROM a\n", "# FROM x \\\nFROM a\n" + one, ""},
		"heredoc":      {"FROM a\nRUN <<EOF\nFROM b\nEOF\nFROM c\n", "FROM a\n" + one + "RUN <<EOF\nFROM b\nEOF\nFROM c\n" + two, ""},
		"two heredocs": {"FROM a\nCOPY <<-'A' <<\"B\" /x\nFROM b\n\tA\nFROM c\nB\n", "FROM a\n" + one + "COPY <<-'A' <<\"B\" /x\nFROM b\n\tA\nFROM c\nB\n", ""},
		"a shift":      {"FROM a\nRUN echo $((1<<n))\nFROM b\n", "FROM a\n" + one + "RUN echo $((1<<n))\nFROM b\n" + two, ""},
		"no FROM":      {"RUN a\n", "", "no FROM"},
		"empty":        {"", "", "no FROM"},
		"by ID":        {"FROM sha256:0123456789abcdef\n", "", "give this image a name"},
		"a short ID":   {"FROM 3f57d9\n", "", "FROM 3f57d9: 3f57d9 could be the ID"},
		"an argument":  {"ARG BASE=3f57d9401f8d\nFROM ${BASE}\n", "", "FROM ${BASE}: 3f57d9401f8d could be the ID"},
		"arguments":    {"ARG \\\n X=3f5 B=\"${X}7d9\"\nFROM a\nFROM $B\n", "", "FROM $B: 3f57d9 could be the ID"},
		"a default":    {"ARG BASE\nFROM ${BASE:-3f57d9401f8d}\n", "", "3f57d9401f8d could be the ID"},
		"no colon":     {"ARG BASE\nFROM ${BASE-3f57d9401f8d}\n", "", "3f57d9401f8d could be the ID"},
		"a choice":     {"ARG X=1\nFROM ${X:+3f57d9401f8d}\n", "", "3f57d9401f8d could be the ID"},
		"a named base": {"ARG BASE=debian:13\nFROM ${BASE}\n", "ARG BASE=debian:13\nFROM ${BASE}\n" + one, ""},
		"with a tag":   {"FROM cafe:1\n", "FROM cafe:1\n" + one, ""},
		"a stage":      {"FROM a AS Cafe\nFROM cafe\n", "FROM a AS Cafe\n" + one + "FROM cafe\n" + two, ""},
		"later ARG":    {"FROM a\nARG b=3f57d9\nFROM x$b\n", "FROM a\n" + one + "ARG b=3f57d9\nFROM x$b\n" + two, ""},
	} {
		got, err := markStages(test.file, "M", "r")
		if test.err != "" {
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%s: %v, want %s", name, err, test.err)
			}
			continue
		}
		if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

// Whatever the file is, nothing but whole lines is added to it.
func FuzzMarkStages(f *testing.F) {
	f.Add("FROM a\nRUN <<EOF\nFROM b\nEOF\n")
	f.Add("# escape=`\r\nFROM a `\r\n AS b")
	f.Fuzz(func(t *testing.T, file string) {
		got, err := markStages(file, "M", "r")
		if err != nil {
			return
		}
		var rest strings.Builder
		for line := range strings.SplitAfterSeq(got, "\n") {
			if !strings.HasPrefix(line, `LABEL tare.run="r" tare.build="M/`) {
				rest.WriteString(line)
			}
		}
		if s := rest.String(); s != file && s != file+"\n" && !strings.Contains(file, "LABEL tare.run") {
			t.Errorf("%q became %q", file, got)
		}
	})
}
