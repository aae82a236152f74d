package ready

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
)

// A line is matched once it is whole, whichever of the outputs it is in and however
// it comes.
func TestEar(t *testing.T) {
	long := strings.Repeat("x", 2*maxLine)
	for name, test := range map[string]struct {
		writes []string // to the first output; those that begin with 2 to the second
		want   int      // after how many; 0 is never
	}{
		"at once":           {[]string{"service is ready\n"}, 1},
		"in pieces":         {[]string{"service is", " rea", "dy", "\n"}, 4},
		"among others":      {[]string{"a\nb\nis ready\nc\n"}, 1},
		"not whole":         {[]string{"is ready"}, 0},
		"other line":        {[]string{"is not read\n", "y\n"}, 0},
		"two lines at once": {[]string{"is ", "\nready\n"}, 0},
		"to the other one":  {[]string{"is ", "2is ready\n"}, 2},
		"mixed":             {[]string{"is ", "2x\n", "ready\n"}, 3},
		"with a return":     {[]string{"is ready\r\n"}, 1},
		"after a long line": {[]string{long, long + "\n", "is ready\n"}, 3},
		"at the end of it":  {[]string{long + "is ready\n"}, 0},
		"twice":             {[]string{"is ready\n", "is ready\n"}, 1},
	} {
		written := 0
		e := newLogWatcher(regexp.MustCompile(`is ready$`).Match, func() time.Duration { return time.Duration(written) })
		outputs := []interface{ Write([]byte) (int, error) }{e.output(), e.output()}
		for _, text := range test.writes {
			to := 0
			if rest, second := strings.CutPrefix(text, "2"); second {
				text, to = rest, 1
			}
			written++
			if n, err := outputs[to].Write([]byte(text)); n != len(text) || err != nil {
				t.Errorf("%s: Write = %d, %v", name, n, err)
			}
		}
		if e.at != time.Duration(test.want) {
			t.Errorf("%s: heard after %d writes, want %d", name, e.at, test.want)
		}
	}
}

func TestParams(t *testing.T) {
	for _, first := range []string{"", Port} {
		for _, p := range Params(first) {
			if p.Valid != nil && p.Valid(p.Default) != nil {
				t.Errorf("%s: the default is not valid: %v", p.Name, p.Valid(p.Default))
			}
		}
	}
	bad := map[string][]string{
		"ready":   {"x", "ports", "PORT"},
		"port":    {"0", "-1", "65536", "http", "80/tcp"},
		"path":    {"", "x", "http://other/", "/a b", "/a\r\nHost: x", "/ä"},
		"text":    {"(", "[z-a]"},
		"timeout": {"", "0s", "-1s", "x", "2h"},
	}
	for _, p := range Params(Port) {
		for _, v := range bad[p.Name] {
			if p.Valid(v) == nil {
				t.Errorf("%s takes %q", p.Name, v)
			}
		}
	}
}

func FuzzEar(f *testing.F) {
	f.Add("a\nready\n", 3)
	f.Add("ready", 1)
	f.Fuzz(func(t *testing.T, text string, cut int) {
		if cut < 0 || cut > len(text) {
			return
		}
		e := newLogWatcher(regexp.MustCompile(`^ready$`).Match, func() time.Duration { return 1 })
		w := e.output()
		for _, part := range []string{text[:cut], text[cut:]} {
			if _, err := fmt.Fprint(w, part); err != nil {
				t.Fatal(err)
			}
		}
		want := false
		for line := range strings.Lines(text) {
			whole, ended := strings.CutSuffix(line, "\n")
			want = want || ended && strings.TrimSuffix(whole, "\r") == "ready"
		}
		if heard := e.at == 1; heard != want {
			t.Errorf("heard: %v, want %v", heard, want)
		}
	})
}
