package yamldoc_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/experiment/yamldoc"
)

// problems begins with a source of 200 lines.
func problems(t *testing.T) *yamldoc.Problems {
	t.Helper()
	var b strings.Builder
	for i := range 200 {
		fmt.Fprintf(&b, "k%d: v\n", i)
	}
	_, src, err := yamldoc.Read("x.yaml", []byte(b.String()), hints())
	if err != nil {
		t.Fatal(err)
	}
	return &yamldoc.Problems{Source: src}
}

func TestProblems(t *testing.T) {
	p := problems(t)
	if err := p.Err(); err != nil || p.Count() != 0 || p.Full() {
		t.Errorf("at the beginning: error %v, count %d, full %t", err, p.Count(), p.Full())
	}
	p.Fail(yamldoc.Place{Line: 2, Column: 5, Width: 1}, "third", "a hint")
	p.Fail(yamldoc.Place{Line: 2, Column: 1, Width: 2}, "second", "")
	p.Fail(yamldoc.Place{Line: 2, Column: 5, Width: 1}, "third", "a hint")
	p.Fail(yamldoc.Place{Line: 300, Column: 5, Width: 1}, "no such line", "")
	p.Fail(yamldoc.Place{Flag: "--blocks", Line: 2}, "a flag", "")
	p.WrongKind(yamldoc.Node{Kind: yamldoc.List, At: yamldoc.Place{Line: 3, Column: 5, Width: 1}}, "text")
	want := &yamldoc.Error{Problems: []yamldoc.Problem{
		{File: "x.yaml", Message: "no such line"},
		{File: "x.yaml", Message: "a flag", Flag: "--blocks"},
		{File: "x.yaml", Line: 2, Column: 1, Width: 2, Source: "k1: v", Message: "second"},
		{File: "x.yaml", Line: 2, Column: 5, Width: 1, Source: "k1: v", Message: "third", Hint: "a hint"},
		{File: "x.yaml", Line: 3, Column: 5, Width: 1, Source: "k2: v", Message: "expected text, but got a list"},
	}}
	if diff := cmp.Diff(error(want), p.Err()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if p.Count() != 6 {
		t.Errorf("count %d, want 6", p.Count())
	}
}

// TestManyProblems wants ten of them, and all of them counted.
func TestManyProblems(t *testing.T) {
	p := problems(t)
	for i := range 150 {
		p.Fail(yamldoc.Place{Line: 150 - i, Column: 1, Width: 1}, "wrong", "")
		if full := i >= 99; p.Full() != full || p.Count() != i+1 {
			t.Fatalf("after %d: full %t, count %d", i+1, p.Full(), p.Count())
		}
	}
	e, ok := errors.AsType[*yamldoc.Error](p.Err())
	if !ok || len(e.Problems) != 10 || e.More != 140 || e.Problems[0].Line != 51 {
		t.Fatalf("%+v", e)
	}
	if s := e.Error(); !strings.HasSuffix(s, "\n     | ^\nand 140 more") || strings.Count(s, "wrong") != 10 {
		t.Error(s)
	}
}

func TestProblemString(t *testing.T) {
	long := strings.Repeat("0123456789", 20)
	for _, tt := range []struct {
		name string
		p    yamldoc.Problem
		want string
	}{
		{
			"wide characters",
			yamldoc.Problem{File: "x", Line: 1, Column: 4, Width: 2, Source: "容器：名前", Message: "wrong"},
			"x:1:4: wrong\n  1 | 容器：名前\n    |       ^^^^",
		},
		{"a flag", yamldoc.Problem{File: "x.yaml", Flag: "--blocks", Message: "no number", Hint: "write 3"}, "--blocks: no number\n    = write 3"},
		{"the file", yamldoc.Problem{File: "x.yaml", Message: "too large"}, "x.yaml: too large"},
		{"wide text", yamldoc.Problem{
			File: "x.yaml", Line: 12, Column: 9, Width: 3, Source: "größe: [abc]", Message: "wrong",
		}, "x.yaml:12:9: wrong\n  12 | größe: [abc]\n     |         ^^^"},
		{"tab and escape", yamldoc.Problem{File: "x", Line: 1, Column: 4, Width: 1, Source: "\ta\x1bb", Message: "wrong"}, "x:1:4: wrong\n  1 |  a?b\n    |    ^"},
		{"behind the line", yamldoc.Problem{File: "x", Line: 1, Column: 9, Width: 5, Source: "abc", Message: "wrong"}, "x:1:9: wrong\n  1 | abc\n    |    ^"},
		{
			"cut behind",
			yamldoc.Problem{File: "x", Line: 1, Column: 1, Width: 300, Source: long, Message: "wrong"},
			"x:1:1: wrong\n  1 | " + long[:76] + "…\n    | " + strings.Repeat("^", 76),
		},
		{
			"cut before and behind",
			yamldoc.Problem{File: "x", Line: 1, Column: 101, Width: 1, Source: long, Message: "wrong"},
			"x:1:101: wrong\n  1 | …" + long[60:136] + "…\n    | " + strings.Repeat(" ", 41) + "^",
		},
		{
			"cut before",
			yamldoc.Problem{File: "x", Line: 1, Column: 200, Width: 1, Source: long, Message: "wrong"},
			"x:1:200: wrong\n  1 | …" + long[159:] + "\n    | " + strings.Repeat(" ", 41) + "^",
		},
		{
			"a hint of two lines",
			yamldoc.Problem{File: "x", Message: "wrong", Hint: strings.Repeat("word ", 20)},
			"x: wrong\n    = " + strings.TrimSpace(strings.Repeat("word ", 14)) + "\n      " +
				strings.TrimSpace(strings.Repeat("word ", 6)),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, tt.p.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestQuote(t *testing.T) {
	for _, tt := range []struct{ s, want string }{
		{"", `""`},
		{"a\x1b\"", `"a\x1b\""`},
		{strings.Repeat("ä", 60), `"` + strings.Repeat("ä", 60) + `"`},
		{strings.Repeat("ä", 61), `"` + strings.Repeat("ä", 60) + `…"`},
	} {
		if got := yamldoc.Quote(tt.s); got != tt.want {
			t.Errorf("Quote(%q) = %s, want %s", tt.s, got, tt.want)
		}
	}
}
