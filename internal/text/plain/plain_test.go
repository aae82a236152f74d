package plain_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tare-bench/tare/internal/text/plain"
)

func TestLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "",
		"漢字 é – ±3 %":             "漢字 é – ±3 %",
		"\x1b[31mred\x1b]0;t\x07": `\x1b[31mred\x1b]0;t\x07`,
		"one\r\ntwo\tthree":       `one\x0d\x0atwo\x09three`,
		"\u009b2J\u0085":          `\u009b2J\u0085`,
		"a\u2028b\u2029c":         `a\u2028b\u2029c`,
		"\u202egnp.exe\u2066":     `\u202egnp.exe\u2066`,
		"r\u200bu\u2060n\ufeff":   `r\u200bu\u2060n\ufeff`,
		"\u034f\u115f\u3164":      `\u034f\u115f\u3164`, // letters and marks that cannot be seen
		"\U000e0041":              `\U000e0041`,
		"\xff\xfe":                `\xff\xfe`,
		"\ufffd":                  `\ufffd`,
		"\ue000":                  `\ue000`,
		"\x7f":                    `\x7f`,
	} {
		if got := plain.Line(text); got != want {
			t.Errorf("Line(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestText(t *testing.T) {
	if got, want := plain.Text("a\n\tb\r\n\x1b[A\u2028"), "a\n\tb\\x0d\n\\x1b[A\\u2028"; got != want {
		t.Errorf("Text = %q, want %q", got, want)
	}
}

// Whatever the text, what is shown of it shows itself, and JSON means the same.
func FuzzLine(f *testing.F) {
	for _, s := range []string{
		"plain", "\x1b[2J", "\u202e\u2066\u200b", "\u009b", "\xff", "a\nb\t", "\U000e0041", "\\u202e\"", "\x7f",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		line := plain.Line(s)
		if !utf8.ValidString(line) || strings.ContainsFunc(line, plain.IsHidden) {
			t.Errorf("Line(%q) = %q", s, line)
		}
		if again := plain.Line(line); again != line {
			t.Errorf("Line(%q) = %q, of which it is %q", s, line, again)
		}
		text := plain.Text(s)
		if got := strings.NewReplacer("\n", `\x0a`, "\t", `\x09`).Replace(text); got != line {
			t.Errorf("Text(%q) = %q, Line is %q", s, text, line)
		}
		encoded, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		safe := plain.JSON(encoded)
		if hidden := bytes.ReplaceAll(safe, []byte("\ufffd"), nil); bytes.ContainsFunc(hidden, plain.IsHidden) {
			t.Errorf("JSON(%q) = %q", encoded, safe)
		}
		var before, after string
		if err := json.Unmarshal(encoded, &before); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(safe, &after); err != nil || after != before {
			t.Errorf("JSON(%q) = %q, which is %q, %v", encoded, safe, after, err)
		}
	})
}
