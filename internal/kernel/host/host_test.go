package host_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/host"
)

var update = flag.Bool("update", false, "write golden files instead of comparing with them")

// trees are the captured machines: a guest with hybrid control groups, a laptop
// on which everything is wrong, a server where everything is right, and one
// that tells nothing.
func trees() []string { return []string{"vm", "laptop", "arm64", "silent"} }

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	name = filepath.Join("testdata/golden", name)
	if *update {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func TestFacts(t *testing.T) {
	for _, tree := range trees() {
		facts := host.Facts(filepath.Join("testdata", tree))
		facts.Arch = "" // of the test, not of the tree
		text, err := json.MarshalIndent(facts, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		golden(t, tree+".facts.json", append(text, '\n'))
	}
}

func TestFactsLive(t *testing.T) {
	f := host.Facts("/")
	if f.Kernel == "" || f.CPUs < 1 || f.Memory < 1<<20 || f.Arch == "" || f.Privileged != (os.Geteuid() == 0) {
		t.Errorf("Facts = %+v", f)
	}
}

func TestExamine(t *testing.T) {
	for _, tree := range trees() {
		root := t.TempDir() // where groups may be made, whoever checked this out
		if err := os.CopyFS(root, os.DirFS(filepath.Join("testdata", tree))); err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		for _, f := range host.Examine(t.Context(), host.Examination{Root: root}) {
			fmt.Fprintf(&text, "%-8s %s: %s\n", f.Status, f.Name, f.Text)
			if f.Hint != "" {
				fmt.Fprintf(&text, "         %s\n", f.Hint)
			}
			if f.Status == host.Disturb && f.Hint == "" {
				t.Errorf("%s: %s warns without advice", tree, f.Name)
			}
		}
		// The only error that is quoted names a file of the tree.
		golden(t, tree+".findings.txt", bytes.ReplaceAll(text.Bytes(), []byte(root), nil))
	}
}

func TestChecks(t *testing.T) {
	x := host.Examination{Root: "testdata/laptop", Dirs: []string{t.TempDir()}}
	var want []bench.Warning
	for _, f := range host.Examine(t.Context(), x) {
		if f.Status == host.Disturb {
			want = append(want, bench.Warning{Code: "host-" + f.Name, Text: f.Text, Hint: f.Hint})
		}
	}
	if diff := cmp.Diff(want, host.Checks(t.Context(), x)); diff != "" || len(want) < 5 {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestExamineDirs(t *testing.T) {
	findings := host.Examine(t.Context(),
		host.Examination{Root: "testdata/silent", Dirs: []string{t.TempDir(), "/no/such/directory"}})
	var found []host.Finding
	for _, f := range findings {
		if f.Name == "disk-space" {
			found = append(found, f)
		}
	}
	if len(found) != 2 || found[1].Status != host.Note || !strings.Contains(found[1].Text, "no such file") {
		t.Errorf("disk-space = %+v", found)
	}
}

func TestExamineWatches(t *testing.T) {
	x := host.Examination{Root: "testdata/vm", Watch: time.Millisecond}
	for _, f := range host.Examine(t.Context(), x) {
		if f.Name == "steal" { // the tree does not change, so no time passed in it
			t.Errorf("without any time: %+v", f)
		}
	}
}

func TestExamineEndsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := host.Examine(ctx, host.Examination{Root: "testdata/vm", Watch: time.Hour}); len(got) == 0 {
		t.Error("nothing was found")
	}
}
