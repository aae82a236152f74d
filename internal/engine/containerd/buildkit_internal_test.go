package containerd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/builder"
)

// What buildctl 0.33 prints of a worker, shortened.
const workers = `[{"id":"w1","labels":{"org.mobyproject.buildkit.worker.containerd.namespace":"buildkit",` +
	`"org.mobyproject.buildkit.worker.containerd.uuid":"u-1","org.mobyproject.buildkit.worker.executor":"containerd"},` +
	`"platforms":null,"gcPolicy":[],"buildkitVersion":{"package":"github.com/moby/buildkit","version":"v0.33.0"}}]`

// Only a buildkitd whose builds end up in this very containerd is its builder.
func TestWorkerOf(t *testing.T) {
	if namespace, version, err := workerOf([]byte(workers), "u-1"); namespace != "buildkit" || version != "0.33.0" || err != nil {
		t.Errorf("namespace %q, version %q, %v", namespace, version, err)
	}
	for _, test := range []struct{ list, uuid string }{
		{workers, "u-2"},
		{"[]", "u-1"},
		{"no JSON", "u-1"},
		{strings.ReplaceAll(workers, "u-1", ""), ""},
		{strings.ReplaceAll(workers, `"buildkit"`, `"../x"`), "u-1"},
	} {
		if namespace, _, err := workerOf([]byte(test.list), test.uuid); err == nil {
			t.Errorf("%.30q for %q gives namespace %q", test.list, test.uuid, namespace)
		}
	}
}

// fakeBuildctl is a buildctl that keeps what it is asked, and answers from files.
func fakeBuildctl(t *testing.T, du, histories string) (k *buildkit, asked func() []string) {
	t.Helper()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	log := file("log", "")
	program := file("buildctl", "#!/bin/sh\necho \"$*\" >>"+log+"\ncase \"$*\" in\n"+
		"du*) cat "+file("du", du)+" ;;\n*histories*) cat "+file("histories", histories)+" ;;\n"+
		"prune*filter*) echo removed ;;\n*--delete*) ;;\n*) echo what >&2; exit 1 ;;\nesac\n")
	return &buildkit{program: program}, func() []string {
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSpace(string(text)), "\n")
	}
}

// What has the mark goes, with what was made from it, and nothing else is named to buildkitd.
func TestRemoveOwn(t *testing.T) {
	const mark = "tare-build/r/n"
	du := `[{"id":"run","parents":["base"],"description":"mount / from exec /tare-agent echo ` + mark + `/1 step 1"},` +
		`{"id":"copy","parents":["run"],"description":"fileop target"},` +
		`{"id":"file","description":"local source for ` + mark + `/file"},` +
		`{"id":"held","inUse":true,"parents":["run"],"description":"mount / from exec /tare-agent echo ` + mark + `/1 step 2"},` +
		`{"id":"theirs","parents":["base"],"description":"mount / from exec make"},` +
		`{"id":"base","description":"pulled from tare.local/r/containerd/agent:latest"}]`
	past := `{"type":1,"record":{"Ref":"h1","FrontendAttrs":{"dockerfilekey":"` + mark + `/file"}}}` + "\n" +
		`{"type":1,"record":{"Ref":"h2","FrontendAttrs":{"filename":"Dockerfile"}}}` + "\n"
	const list, past1 = "du --format {{json .}}", "debug histories --format {{json .}}"
	for name, test := range map[string]struct {
		du, past string
		ours     func(builder.Record) bool
		want     []string
	}{
		"a build": {
			du, past, func(r builder.Record) bool { return strings.Contains(r.Description, mark+"/") },
			[]string{list, past1, "debug ctl --delete h1", "prune --all --format {{.ID}} --filter id==copy --filter id==file --filter id==run"},
		},
		"nothing": {du, past, func(builder.Record) bool { return false }, []string{list, past1}},
		"only a history": {
			"null", past, func(r builder.Record) bool { return buildRun(r.Description) == "r" },
			[]string{list, past1, "debug ctl --delete h1"},
		},
	} {
		k, asked := fakeBuildctl(t, test.du, test.past)
		some, err := k.remove(t.Context(), test.ours)
		if err != nil || some != (len(test.want) > 2) {
			t.Errorf("%s: some %v, %v", name, some, err)
		}
		if diff := cmp.Diff(sortedWords(test.want), sortedWords(asked())); diff != "" {
			t.Errorf("%s: asked (-want +got):\n%s", name, diff)
		}
	}
}

// sortedWords makes the order of filters of a command irrelevant: TestOwnRecords has it.
func sortedWords(lines []string) (all []map[string]int) {
	for _, line := range lines {
		words := map[string]int{}
		for word := range strings.FieldsSeq(line) {
			words[word]++
		}
		all = append(all, words)
	}
	return all
}

func TestBuildRun(t *testing.T) {
	for text, want := range map[string]string{
		"local source for tare-build/run-1/n/file":                      "run-1",
		"mount / from exec /tare-agent echo tare-build/run-1/n/1":       "run-1",
		"pulled from tare.local/run-1/containerd/agent:latest@sha256:0": "run-1",
		"pulled from docker.io/library/debian:13":                       "",
		"local source for context":                                      "",
		"":                                                              "",
	} {
		if got := buildRun(text); got != want {
			t.Errorf("%q is of run %q, want %q", text, got, want)
		}
	}
}

// A record without a description is tare's if a program with a mark was run on it.
func TestRunsOfParents(t *testing.T) {
	got := runsOfParents([]builder.Record{
		{ID: "step", Parents: []string{"base"}, Description: "mount / from exec /tare-agent echo tare-build/run-1/n/1"},
		{ID: "base"},
		{ID: "theirs", Parents: []string{"debian"}, Description: "mount / from exec make"},
		{ID: "debian"},
	})
	if diff := cmp.Diff(map[string]string{"base": "run-1"}, got); diff != "" {
		t.Errorf("runs of parents (-want +got):\n%s", diff)
	}
}

// A build says which copies of files are its own, and takes images from containerd's store.
func TestBuildArgs(t *testing.T) {
	k := &buildkit{program: "/bin/buildctl"}
	b := bench.Build{Mark: "tare-build/r/n", File: "/d/Own.file", Context: "/d/context"}
	got := strings.Join(k.buildArgs(b, "tare.local/r/c/agent:latest", "tare.local/r/c/build:latest"), " ")
	for _, want := range []string{
		"--local context=/d/context ", "--local tare-build/r/n/file=/d ", "--opt dockerfilekey=tare-build/r/n/file ",
		"--opt filename=Own.file ", " --no-cache",
		"--output type=image,name=tare.local/r/c/build:latest", "build-arg:TARE_BASE=tare.local/r/c/agent:latest",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nlacks %q", got, want)
		}
	}
	b.Cached = true
	if got := strings.Join(k.buildArgs(b, "", "x"), " "); strings.Contains(got, "--no-cache") || strings.Contains(got, "build-arg") {
		t.Errorf("with the cache and without a base: %s", got)
	}
	if _, err := histories([]byte("{\n")); err == nil {
		t.Error("half of an object is no error")
	}
}
