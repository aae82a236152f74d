package plain_test

import (
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/text/plain"
)

func TestMarkdown(t *testing.T) {
	for text, want := range map[string]string{
		"12 % slower (9–15 %) [a]": "12 % slower (9–15 %) [a]",
		"a_b*c~d`e|f\\g":           "a\\_b\\*c\\~d\\`e\\|f\\\\g",
		"<b>&amp;":                 "&lt;b&gt;&amp;amp;",
		"[x](y) ![x][y] [x]: y":    `[x]\(y) ![x]\[y] [x]\: y`,
		"https://a www.b":          `https:\//a www\.b`,
		"[x]://y":                  `[x]\:\//y`,
		"@all":                     "@<!-- -->all",
		"shop@sha256:1":            "shop@<!-- -->sha256:1",
		"a/b#12":                   "a/b#<!-- -->12",
		"# title":                  "#<!-- --> title",
	} {
		if got := plain.Markdown(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// Whatever comes, nothing is left that a forge would act upon.
func FuzzMarkdown(f *testing.F) {
	f.Add("@<!-- -->x#1://www.](")
	f.Add("]://")
	f.Fuzz(func(t *testing.T, text string) {
		got := strings.ReplaceAll(plain.Markdown(text), "<!-- -->", "\x00")
		for _, active := range []string{"<", ">", "](", "://", "www."} {
			if strings.Contains(got, active) {
				t.Errorf("%q has %q: %q", text, active, got)
			}
		}
		for _, sign := range []string{"@", "#"} {
			if strings.Count(got, sign) != strings.Count(got, sign+"\x00") {
				t.Errorf("%q has a %s that counts: %q", text, sign, got)
			}
		}
	})
}
