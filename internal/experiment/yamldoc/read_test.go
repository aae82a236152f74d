package yamldoc_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/experiment/yamldoc"
	"github.com/tare-bench/tare/internal/experiment/yamldoc/yamldoctest"
)

func hints() yamldoc.Hints {
	return yamldoc.Hints{TooLarge: "write less", Empty: "write something", MultipleDocuments: "write one"}
}

// read shows what was read or what is wrong.
func read(data string) string {
	root, _, err := yamldoc.Read("x.yaml", []byte(data), hints())
	if err != nil {
		return err.Error()
	}
	return outline(root, "")
}

// outline shows a node on lines with their places. Nothing has none that
// matters.
func outline(n yamldoc.Node, indent string) string {
	switch n.Kind {
	case yamldoc.Null:
		return "nothing\n"
	case yamldoc.Scalar:
		return fmt.Sprintf("%q%s\n", n.Text, at(n.At))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s%s\n", n.Kind, at(n.At))
	for _, item := range n.Items {
		fmt.Fprintf(&b, "%s- %s", indent, outline(item, indent+"  "))
	}
	for _, f := range n.Fields {
		fmt.Fprintf(&b, "%s%s%s: %s", indent, f.Name, at(f.At), outline(f.Value, indent+"  "))
	}
	return b.String()
}

func at(p yamldoc.Place) string { return fmt.Sprintf(" @%d:%d+%d", p.Line, p.Column, p.Width) }

func TestRead(t *testing.T) {
	const data = `# a comment
word: plain
"quoted": 'it''s'
größe: 1.50
flow: {a: [x, true], b: ~}
block:
  - 0x10
  - c: |
      one
      two
    d: "two"
  -
empty:
`
	const want = `a mapping @2:1+4
word @2:1+4: "plain" @2:7+5
quoted @3:1+8: "it's" @3:11+7
größe @4:1+5: "1.50" @4:8+4
flow @5:1+4: a mapping @5:7+1
  a @5:8+1: a list @5:11+1
    - "x" @5:12+1
    - "true" @5:15+4
  b @5:22+1: nothing
block @6:1+5: a list @7:3+1
  - "0x10" @7:5+4
  - a mapping @8:5+1
    c @8:5+1: "one\ntwo\n" @8:8+1
    d @11:5+1: "two" @11:8+5
  - nothing
empty @13:1+5: nothing
`
	if diff := cmp.Diff(want, read(data)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestText reads what is no plain file: other encodings, line ends and sizes.
func TestText(t *testing.T) {
	const one = "a mapping @1:1+1\na @1:1+1: \"b\" @1:4+1\n"
	for _, tt := range []struct{ name, data, want string }{
		{"plain", "a: b\n", one},
		{"byte order mark", "\ufeffa: b\n", one},
		{"CRLF", "a: b\r\n", one},
		{"no newline at the end", "a: b", one},
		{"tab after a colon", "a:\tb\n", "a mapping @1:1+1\na @1:1+1: \"b\" @1:3+1\n"},
		{"a document in marks", "--- \na: b\n...\n", "a mapping @2:1+1\na @2:1+1: \"b\" @2:4+1\n"},
		{"folded", "a: >-\n  One\n  sentence.\n", "a mapping @1:1+1\na @1:1+1: \"One sentence.\" @1:4+2\n"},
		{"column after CRLF", "a: b\r\nc: d\r\n", "a mapping @1:1+1\na @1:1+1: \"b\" @1:4+1\nc @2:1+1: \"d\" @2:4+1\n"},
		{"Latin-1", "a: b\nc: gr\xf6\xdfer\n", "x.yaml:2:6: byte 0xf6 is not UTF-8\n  2 | c: gr��er\n    |      ^\n    = save the file as UTF-8 text"},
		{"NUL", "ä: b\x00\n", "x.yaml:1:5: NUL bytes are not allowed\n  1 | ä: b?\n    |     ^\n    = save the file as " +
			"UTF-8 text"},
		{"lone CR", "a: b\rc: d\n", "x.yaml:1:5: control character U+000D is not allowed\n  1 | a: b?c: d\n    |     ^\n    = save the file as UTF-8 text"},
		{"empty", "", "x.yaml: the file is empty\n    = write something"},
		{"a comment", "# nothing\n", "x.yaml: the file is empty\n    = write something"},
		{"two documents", "a: b\n---\nc: d\n", "x.yaml:3:1: a second YAML document begins here\n  3 | c: d\n    | ^\n    = write one"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, read(tt.data)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestBounds reads what is too large for anybody's file.
func TestBounds(t *testing.T) {
	const most = "a: b\n"
	if got := read(most + strings.Repeat("#", yamldoc.MaxBytes-len(most))); !strings.HasPrefix(got, "a mapping") {
		t.Errorf("as large as allowed: %s", got)
	}
	if got := read(strings.Repeat("[", 16) + strings.Repeat("]", 16)); !strings.HasPrefix(got, "a list") {
		t.Errorf("as deep as allowed: %s", got)
	}
	for _, tt := range []struct{ name, data, want string }{
		{"bytes", strings.Repeat("#", yamldoc.MaxBytes+1), "x.yaml: the file is larger than 64 KiB\n    = write less"},
		{"tokens", strings.Repeat("a: ", 1<<14), "x.yaml: the file has 32768 YAML tokens; at most 20000 are read"},
		{"brackets", strings.Repeat("[", 19000), "x.yaml:1:17: the file is nested deeper than 16 levels"},
		{"list", strings.Repeat("- ", 9000) + "a", "x.yaml:1:35: the file is nested deeper than 16 levels"},
		{"mapping", "a: " + strings.Repeat("{b: ", 30), "x.yaml:1:68: the file is nested deeper than 16 levels"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := read(tt.data); !strings.HasPrefix(got, tt.want) {
				t.Errorf("%.200s\nwant %s", got, tt.want)
			}
		})
	}
}

// TestUnsupported reads YAML that no node stands for.
func TestUnsupported(t *testing.T) {
	for data, want := range map[string]string{ // the beginning
		"a: &x b\n": "x.yaml:1:4: anchors and aliases (& and *) are not supported\n  1 | a: &x b\n    |    ^\n    = " +
			"write the whole value",
		"a: *x\n":       "x.yaml:1:4: anchors and aliases (& and *) are not supported\n",
		"a: !!str b\n":  "x.yaml:1:4: tags (!) are not supported\n",
		"<<: {a: b}\n":  "x.yaml:1:1: this cannot be a key\n  1 | <<: {a: b}\n    | ^^\n    = a key is a plain word",
		"? a\n: b\n":    "x.yaml:1:1: this cannot be a key\n",
		"\xff\xfea\x00": "x.yaml: the file is UTF-16\n    = save it as UTF-8",
		"a: \x00\n":     "x.yaml:1:4: NUL bytes are not allowed\n",
		"a: \xe9\n":     "x.yaml:1:4: byte 0xe9 is not UTF-8\n",
		"a: \x1b[1m\n":  "x.yaml:1:4: control character U+001B is not allowed\n",
	} {
		if got := read(data); !strings.HasPrefix(got, want) {
			t.Errorf("%q:\n%s\nwant\n%s", data, got, want)
		}
	}
}

// TestBroken wants the part of a broken file that could be read.
func TestBroken(t *testing.T) {
	root, _, err := yamldoc.Read("x.yaml", []byte("a: &x b\nc: d\n"), hints())
	if err == nil {
		t.Fatal("no error")
	}
	if f, ok := root.Field("c"); !ok || f.Value.Text != "d" {
		t.Errorf("field c is %+v, %t", f, ok)
	}
	if f, ok := root.Field("e"); ok {
		t.Errorf("there is a field e: %+v", f)
	}
}

// TestErrors compares what is said about each broken file with golden text.
func TestErrors(t *testing.T) {
	yamldoctest.Errors(t, func(name string, data []byte) error {
		_, _, err := yamldoc.Read(name, data, hints())
		return err
	})
}

// FuzzRead reads anything. Nothing may panic, and what is read has its place.
func FuzzRead(f *testing.F) {
	for _, file := range yamldoctest.Files(f, "testdata/errors/*.yaml") {
		f.Add(yamldoctest.Content(f, file))
	}
	f.Add([]byte("a: {b: [1, ~]}\n<<: *c\n? d\n: e\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		root, _, err := yamldoc.Read("fuzz.yaml", data, hints())
		if err == nil {
			checkNode(t, root, strings.Count(string(data), "\n")+1, 0)
			return
		}
		e, ok := errors.AsType[*yamldoc.Error](err)
		if !ok || len(e.Problems) == 0 || len(e.Problems) > 10 {
			t.Fatalf("error %T: %v", err, err)
		}
		for _, c := range e.Error() {
			if c < ' ' && c != '\n' {
				t.Fatalf("the error has control character %q: %q", c, e.Error())
			}
		}
	})
}

// checkNode wants a node within the lines of the file and the bounds.
func checkNode(t *testing.T, n yamldoc.Node, lines, depth int) {
	t.Helper()
	if p := n.At; n.Kind != yamldoc.Null && (p.Line < 1 || p.Line > lines || p.Column < 1 || p.Width < 1) {
		t.Errorf("%s is at %+v of %d lines", n.Kind, p, lines)
	}
	if depth > 16 {
		t.Errorf("%s is %d levels deep", n.Kind, depth)
	}
	for _, item := range n.Items {
		checkNode(t, item, lines, depth+1)
	}
	names := map[string]bool{}
	for _, f := range n.Fields {
		if names[f.Name] || f.At.Line < 1 || f.At.Line > lines {
			t.Errorf("key %q is there twice, or at %+v of %d lines", f.Name, f.At, lines)
		}
		names[f.Name] = true
		checkNode(t, f.Value, lines, depth+1)
	}
}
