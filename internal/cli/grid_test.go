package cli

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestGrid(t *testing.T) {
	rows := [][]string{
		{"name", "first image", "second"},
		{"environment", "A=1 PATH=/usr/local/sbin:/usr/local/bin", "B=2"},
		{"none", "", "–"},
	}
	for _, test := range []struct {
		width int
		want  string
	}{
		{unlimited, `name         first image                              second
environment  A=1 PATH=/usr/local/sbin:/usr/local/bin  B=2
none                                                  –
`},
		{40, `name         first image          second
environment  A=1                  B=2
             PATH=/usr/local/sbi
             n:/usr/local/bin
none                              –
`},
		{1, `name         first image   second
environment  A=1           B=2
             PATH=/usr/lo
             cal/sbin:/us
             r/local/bin
none                       –
`},
	} {
		var b strings.Builder
		writeGrid(&b, rows, test.width)
		if diff := cmp.Diff(test.want, b.String()); diff != "" {
			t.Errorf("width %d (-want +got):\n%s", test.width, diff)
		}
	}
}
