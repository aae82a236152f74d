package term_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/text/term"
)

func TestWidth(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "abc": 3, "é": 1, "e\u0301": 1, "→ ●": 3, "容器": 4, "ａ": 2, "한국": 4, "…": 1,
	} {
		if got := term.Width(text); got != want {
			t.Errorf("%q takes %d columns, want %d", text, got, want)
		}
	}
	for _, right := range []bool{false, true} {
		want := "容器  "
		if right {
			want = "  容器"
		}
		if got := term.Pad("容器", 6, right); got != want {
			t.Errorf("padded, right %t: %q", right, got)
		}
	}
}

func TestShorten(t *testing.T) {
	for n, want := range map[int]string{1: "…", 2: "a…", 3: "a…", 4: "a容…", 5: "a容器"} {
		if got := term.Shorten("a容器", n); got != want || term.Width(got) > n {
			t.Errorf("%d columns: %q, want %q", n, got, want)
		}
	}
}

func TestLines(t *testing.T) {
	const text = "see\n/var/lib/containers/overlay  容器容器 a b"
	for name, test := range map[string]struct {
		lay  func(string, int) []string
		n    int
		want []string
	}{
		"words stay whole":       {term.Wrap, 10, []string{"see", "/var/lib/containers/overlay", "容器容器 a", "b"}},
		"paths break at a name":  {term.WrapBreaking, 10, []string{"see", "/var/lib/", "containers", "/overlay", "容器容器 a", "b"}},
		"what is broken goes on": {term.WrapBreaking, 12, []string{"see", "/var/lib/", "containers/", "overlay", "容器容器 a b"}},
		"wide characters do not": {
			term.WrapBreaking, 5,
			[]string{"see", "/var/", "lib/", "conta", "iners", "/over", "lay", "容器", "容器", "a b"},
		},
		"narrower than can be":    {term.WrapBreaking, 0, nil},
		"all of it in one line":   {term.Wrap, 100, []string{strings.Join(strings.Fields(text), " ")}},
		"all of it in one, again": {term.WrapBreaking, 100, []string{strings.Join(strings.Fields(text), " ")}},
	} {
		got := test.lay(text, test.n)
		if test.want == nil {
			for _, line := range got {
				if term.Width(line) > 2 {
					t.Errorf("%s: %q is wider than two columns", name, line)
				}
			}
			continue
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if diff := cmp.Diff([]string{"network=", "published"}, term.WrapBreaking("network=published", 12)); diff != "" {
		t.Errorf("a setting (-want +got):\n%s", diff)
	}
	if got := append(term.Wrap(" ", 10), term.WrapBreaking("", 10)...); len(got) != 0 {
		t.Errorf("no words have lines: %q", got)
	}
}

func TestWriteWrapped(t *testing.T) {
	for name, test := range map[string]struct {
		begin, text string
		columns     int
		want        string
	}{
		"below the text":       {"● ", "one two three four 容器", 24, "● one two three four\n  容器\n"},
		"nothing to say":       {"names ", "", 24, "names\n"},
		"as it was, unlimited": {"- ", "one  two\nthree", term.Unlimited, "- one  two\n  three\n"},
		"what hides is shown":  {"", "a\x1b[31mb", term.Unlimited, `a\x1b[31mb` + "\n"},
	} {
		var b strings.Builder
		term.WriteWrapped(&b, test.begin, test.text, test.columns)
		if diff := cmp.Diff(test.want, b.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestWriteTable(t *testing.T) {
	rows := [][]string{
		{"name", "first image", "second"},
		{"environment", "A=1 PATH=/usr/local/sbin:/usr/local/bin", "B=2"},
		{"容器", "", "–"},
	}
	for _, test := range []struct {
		columns int
		want    string
	}{
		{term.Unlimited, `name         first image                              second
environment  A=1 PATH=/usr/local/sbin:/usr/local/bin  B=2
容器                                                  –
`},
		{40, `name         first image          second
environment  A=1                  B=2
             PATH=/usr/local/
             sbin:/usr/local/bin
容器                              –
`},
		{1, `name         first image   second
environment  A=1           B=2
             PATH=/usr/
             local/sbin:/
             usr/local/
             bin
容器                       –
`},
	} {
		var b strings.Builder
		term.WriteTable(&b, rows, test.columns)
		if diff := cmp.Diff(test.want, b.String()); diff != "" {
			t.Errorf("%d columns (-want +got):\n%s", test.columns, diff)
		}
	}
}
