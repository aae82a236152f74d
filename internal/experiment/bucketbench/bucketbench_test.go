package bucketbench_test

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/experiment"
	"github.com/tare-bench/tare/internal/experiment/bucketbench"
	"github.com/tare-bench/tare/internal/experiment/yamldoc"
	"github.com/tare-bench/tare/internal/experiment/yamldoc/yamldoctest"
	"github.com/tare-bench/tare/internal/workload/lifecycle"
)

// TestConvert compares experiments and notes with golden text, and plans them.
func TestConvert(t *testing.T) {
	for _, file := range yamldoctest.Files(t, "testdata/files/*.yaml") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data := yamldoctest.Content(t, file)
			if !bucketbench.Recognise(data) {
				t.Error("not recognised")
			}
			e, notes, err := bucketbench.Convert(filepath.Base(file), data)
			if err != nil {
				t.Fatal(err)
			}
			checkNotes(t, data, notes)
			yamldoctest.Golden(t, strings.TrimSuffix(file, ".yaml")+".tare", e.YAML())
			checkPlan(t, e, e.YAML())
		})
	}
}

// checkNotes wants each note to be about a line that there is, in order.
func checkNotes(t *testing.T, data []byte, notes []yamldoc.Note) {
	t.Helper()
	last := 0
	for _, n := range notes {
		if n.Line < last || n.Line > bytes.Count(data, []byte("\n"))+1 {
			t.Errorf("note after line %d: %s", last, n)
		}
		if n.Text == "" || strings.ContainsAny(n.Text, "\n\x1b") {
			t.Errorf("note %q", n.Text)
		}
		last = n.Line
	}
}

// checkPlan plans the experiment, and wants every engine under each number of
// threads that its driver had, with that driver's iterations.
func checkPlan(t *testing.T, e bucketbench.Experiment, text []byte) {
	t.Helper()
	p, err := plan(text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	got, want := map[string]bool{}, map[string]bool{}
	for _, c := range p.Cells {
		if !c.Control {
			got[fmt.Sprint(c.Engine, " ", c.Params["concurrency"], " ", c.Params["iterations"])] = true
		}
		if c.Params["operations"] != strings.Join(e.Operations, ",") || c.Spec.Image != e.Image ||
			!slices.Equal(c.Spec.Argv, e.Argv) || c.Spec.Network != e.Network {
			t.Errorf("cell %s: %v, %+v", c.Name, c.Params, c.Spec)
		}
	}
	for _, engine := range e.Engines {
		for _, n := range e.Concurrency {
			if n <= engine.Threads {
				want[fmt.Sprint(engine.Name, " ", n, " ", engine.Iterations)] = true
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("cells (-want +got):\n%s", diff)
	}
	if p.TrialTime < 10*time.Minute || p.OpTime < 30*time.Second || p.OpTime <= e.Grace {
		t.Errorf("limits %v and %v with a grace of %v", p.TrialTime, p.OpTime, e.Grace)
	}
}

// TestErrors compares what is said about each broken file with golden text.
func TestErrors(t *testing.T) {
	yamldoctest.Errors(t, func(name string, data []byte) error {
		_, _, err := bucketbench.Convert(name, data)
		return err
	})
}

func TestRecognise(t *testing.T) {
	for _, tt := range []struct {
		data string
		want bool
	}{
		{"", false},
		{"- drivers\n", false},
		{"drivers: [\n", false},
		{"workload: lifecycle\n", false},
		{"workload: lifecycle\ncommands: [run]\n", false},
		{"factors: {engine: docker}\n", false},
		{"services: {web: {image: nginx}}\n", false},
		{"drivers: []\n", true},
		{"commands: [run]\nnonsense: 1\n", true},
		{"image: &a x\ndrivers: [{type: Docker}]\n", true},
		{"\ufeffname: x\r\ndrivers:\r\n  - type: Docker\r\n", true},
		{"drivers: []\n" + strings.Repeat("#", yamldoc.MaxBytes), false},
	} {
		if got := bucketbench.Recognise([]byte(tt.data)); got != tt.want {
			t.Errorf("Recognise(%.40q) = %t", tt.data, got)
		}
	}
	for _, b := range experiment.Builtins() {
		if data, _ := experiment.Builtin(b.Name); bucketbench.Recognise(data) {
			t.Errorf("experiment %s is taken for a file of bucketbench", b.Name)
		}
	}
}

// TestAliases reads every word that bucketbench has for a command.
func TestAliases(t *testing.T) {
	for _, tt := range []struct{ words, want string }{
		{"run stop remove", "create start stop remove"},
		{"START KILL ERASE", "create start stop remove"},
		{"run delete", "create start remove"},
		{"run pause unpause stats metrics wait delete", "create start pause resume wait remove"},
		{"run pause delete", "create start pause remove"},
		{"run wait kill wait stop", "create start wait remove"},
		{"run sleep rm", "create start remove"},
	} {
		data := "image: x\ndrivers: [{type: Docker, threads: 1, iterations: 1}]\ncommands: [" +
			strings.ReplaceAll(tt.words, " ", ", ") + "]\n"
		e, _, err := bucketbench.Convert("x.yaml", []byte(data))
		if got := strings.Join(e.Operations, " "); err != nil || got != tt.want {
			t.Errorf("%s: %s, want %s; error %v", tt.words, got, tt.want, err)
		}
	}
}

// TestStop wants one stop for all engines: the gentle one unless some driver
// sent SIGKILL, but for CRI, which has no other.
func TestStop(t *testing.T) {
	for _, tt := range []struct {
		types, operation string
		grace            time.Duration
	}{
		{"DockerCLI", "stop", 10 * time.Second},
		{"DockerCLI Docker", "stop", 30 * time.Second},
		{"Docker CRI", "stop", 30 * time.Second},
		{"CRI", "stop", time.Second},
		{"CRI Containerd", "stop", time.Second},
		{"Containerd", "kill", 0},
		{"Docker Runc", "kill", 0},
		{"CRun Youki Ctr", "kill", 0},
	} {
		var data strings.Builder
		data.WriteString("image: x\ncommands: [run, stop]\ndrivers:\n")
		for kind := range strings.FieldsSeq(tt.types) {
			data.WriteString("  - {type: " + kind + ", threads: 1, iterations: 1}\n")
		}
		e, _, err := bucketbench.Convert("x.yaml", []byte(data.String()))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(e.Operations, tt.operation) || e.Grace != tt.grace {
			t.Errorf("%s: %v with a grace of %v, want %s with %v", tt.types, e.Operations, e.Grace, tt.operation, tt.grace)
		}
	}
}

func TestImageNames(t *testing.T) {
	for _, tt := range []struct{ kind, image, want string }{
		{"Docker", "alpine", "alpine"},
		{"Docker", "agent", "docker.io/library/agent:latest"},
		{"Docker", "tar:1.0", "docker.io/library/tar:1.0"},
		{"Containerd", "alpine", "docker.io/library/alpine:latest"},
		{"Containerd", "alpine:3", "docker.io/library/alpine:3"},
		{"Containerd", "me/tool", "docker.io/me/tool:latest"},
		{"Containerd", "docker.io/alpine", "docker.io/library/alpine:latest"},
		{"Containerd", "localhost/tool", "localhost/tool:latest"},
		{"Containerd", "reg.example:5000/a/b", "reg.example:5000/a/b:latest"},
		{"Containerd", "reg.example/a@sha256:0", "reg.example/a@sha256:0"},
	} {
		data := fmt.Sprintf("image: %s\ncommands: [run]\ndrivers: [{type: %s, threads: 1, iterations: 1}]\n",
			tt.image, tt.kind)
		e, _, err := bucketbench.Convert("x.yaml", []byte(data))
		if err != nil || e.Image != tt.want {
			t.Errorf("%s %s: %q, want %q; error %v", tt.kind, tt.image, e.Image, tt.want, err)
		}
	}
}

// TestBounds reads what is too large for anybody's benchmark.
func TestBounds(t *testing.T) {
	valid := "image: x\ncommands: [run]\ndrivers:\n"
	one := "  - {type: Docker, threads: 1, iterations: 1}\n"
	for _, tt := range []struct{ name, data, want string }{
		{"bytes", strings.Repeat("#", yamldoc.MaxBytes+1), "the file is larger than 64 KiB"},
		{"drivers", valid + strings.Repeat(one, 21), "x.yaml:24:5: the file has more than 20 drivers"},
		{"commands", "commands: [" + strings.Repeat("run, ", 99) + "]", "the file has more than 98 commands"},
		{"threads", strings.Replace(valid+one, "threads: 1", "threads: 1001", 1), "not a whole number from 1 to 1000"},
		{"image", "image: " + strings.Repeat("x", 901), "longer than 900 characters"},
		{"problems", valid + one + strings.Repeat("k", 1) + ": 1\n" + numbered(500), "and 491 more"},
		{"bytes that are no text", "image: \xff", "x.yaml:1:8: byte 0xff is not UTF-8"},
		{"escape", "image: a\x1b[31m", "x.yaml:1:9: control character U+001B is not allowed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := bucketbench.Convert("x.yaml", []byte(tt.data))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q in it", err, tt.want)
			}
		})
	}
}

// The longest file makes the longest sequence of operations that there can be.
func TestLongestFile(t *testing.T) {
	commands := "run, " + strings.Repeat("pause, resume, ", 48) + "pause"
	data := []byte("image: x\ncommands: [" + commands + "]\ndrivers: [{type: Docker, threads: 1, iterations: 1}]\n")
	e, _, err := bucketbench.Convert("x.yaml", data)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(e.Operations); n != 100 {
		t.Errorf("%d operations, want 100", n)
	}
	checkPlan(t, e, e.YAML())
}

func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "k%d: 1\n", i)
	}
	return b.String()
}

// TestDocs converts the first example of docs/bucketbench.md, and wants the second.
func TestDocs(t *testing.T) {
	blocks := strings.Split(string(yamldoctest.Content(t, "../../../docs/bucketbench.md")), "```yaml\n")
	if len(blocks) != 3 {
		t.Fatalf("%d examples", len(blocks)-1)
	}
	first, _, _ := strings.Cut(blocks[1], "```")
	second, _, _ := strings.Cut(blocks[2], "```")
	e, _, err := bucketbench.Convert("old.yaml", []byte(first))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(second, string(e.YAML())); diff != "" {
		t.Errorf("the experiment in docs/bucketbench.md (-docs +made):\n%s", diff)
	}
}

// FuzzConvert reads anything. What is converted can be planned.
func FuzzConvert(f *testing.F) {
	for _, pattern := range []string{"testdata/files/*.yaml", "testdata/errors/*.yaml"} {
		for _, file := range yamldoctest.Files(f, pattern) {
			f.Add(yamldoctest.Content(f, file))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		recognised := bucketbench.Recognise(data)
		e, notes, err := bucketbench.Convert("fuzz\n\x1b.yaml", data)
		if err == nil {
			if !recognised {
				t.Error("converted and not recognised")
			}
			checkNotes(t, data, notes)
			checkPlan(t, e, e.YAML())
			return
		}
		broken, ok := errors.AsType[*yamldoc.Error](err)
		if !ok || len(broken.Problems) == 0 || len(broken.Problems) > 10 {
			t.Fatalf("error %T: %v", err, err)
		}
	})
}

// plan holds an experiment to a tare that has the workload and the drivers.
func plan(data []byte) (bench.Plan, error) {
	e, err := experiment.Parse("made.yaml", data)
	if err != nil {
		return bench.Plan{}, err
	}
	return e.Plan(experiment.Known{
		Workloads: []bench.Workload{lifecycle.NewThroughput()},
		Drivers: []experiment.Driver{
			{Name: "docker", Options: []string{"host"}},
			{Name: "oci", Options: []string{"binary"}},
			{Name: "containerd", Options: []string{"address"}},
			{Name: "cri", Options: []string{"endpoint"}},
		},
	}, 1)
}
