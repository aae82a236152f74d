package experiment_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/experiment"
	"github.com/tare-bench/tare/internal/experiment/yamldoc/yamldoctest"
)

var fence = regexp.MustCompile("(?ms)^```(yaml|text)\n(.*?)^```$")

// TestDocs plans every example of docs/experiment.md. One that is followed by
// a block of text must fail with it.
func TestDocs(t *testing.T) {
	blocks := fence.FindAllStringSubmatch(string(yamldoctest.Content(t, "../../docs/experiment.md")), -1)
	if len(blocks) < 10 {
		t.Fatalf("%d examples found", len(blocks))
	}
	for i, block := range blocks {
		if block[1] != "yaml" {
			continue
		}
		want := ""
		if i+1 < len(blocks) && blocks[i+1][1] == "text" {
			want = blocks[i+1][2]
		}
		got := ""
		if _, err := plan("mine.yaml", []byte(block[2])); err != nil {
			got = err.Error() + "\n"
		}
		if got != want {
			t.Errorf("example\n%s\ngives the error\n%s\nwant\n%s", block[2], got, want)
		}
	}
}

// TestKeyExamples reads the example of each key in the tables.
func TestKeyExamples(t *testing.T) {
	experimentKeys, cellKeys, ok := strings.Cut(string(experiment.Reference()), "### What a cell is given")
	if !ok {
		t.Fatal("the second table is missing")
	}
	check := func(table, before, after string) {
		n := 0
		for line := range strings.Lines(table) {
			columns := strings.Split(strings.TrimSpace(line), " | ")
			if len(columns) != 4 || !strings.HasPrefix(columns[0], "| `") {
				continue
			}
			n++
			example := strings.Trim(columns[3], "`| ")
			if name, _, _ := strings.Cut(example, ":"); "| `"+name+"`" != columns[0] {
				t.Errorf("the example of %s is %s", columns[0], example)
			}
			text := before + example + after
			if !strings.Contains(text, "workload:") {
				text += "\nworkload: lifecycle"
			}
			if _, err := experiment.Parse("x.yaml", []byte(text)); err != nil {
				t.Errorf("%s: %v", example, err)
			}
		}
		if n < 15 {
			t.Errorf("%d keys found", n)
		}
	}
	check(experimentKeys, "", "")
	check(cellKeys, "cells: [{name: a, ", "}]")
}

// TestDefaults writes out every default that the tables name. That must give
// the plan that the defaults give.
func TestDefaults(t *testing.T) {
	row := regexp.MustCompile("(?m)^\\| `([a-z_]+)` .*Default: `([^`]+)`\\.")
	var text strings.Builder
	text.WriteString("workload: lifecycle\n")
	rows := row.FindAllStringSubmatch(string(experiment.Reference()), -1)
	for _, m := range rows {
		if m[1] == "factors" {
			m[2] = "{" + m[2] + "}"
		}
		text.WriteString(m[1] + ": " + m[2] + "\n")
	}
	if len(rows) != 11 {
		t.Errorf("%d defaults found:\n%s", len(rows), text.String())
	}
	want, err := plan("x.yaml", []byte("workload: lifecycle\n"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := plan("x.yaml", []byte(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s\nthe plan differs (-default +written out):\n%s", text.String(), diff)
	}
}
