package plain_test

import (
	"testing"

	"github.com/tare-bench/tare/internal/text/plain"
)

// No name is a formula to a spreadsheet, which skips blanks and knows wide signs.
func TestNamesAreNoFormulas(t *testing.T) {
	for _, name := range []string{
		"=1+1", "+1", "-1", "@SUM(A1)", "|x", "%x", " =1+1", "\u00a0\u3000 =1+1", "＝1+1", "＋1", " －1", "＠x", "﹦1", "−1",
	} {
		if got := plain.Cell(name); got != "'"+name {
			t.Errorf("plain.Cell(%q) = %q, want it with an apostrophe", name, got)
		}
	}
	for _, name := range []string{"", " ", "runc", "a=b", " 1", "漢字"} {
		if got := plain.Cell(name); got != name {
			t.Errorf("plain.Cell(%q) = %q, want it as it is", name, got)
		}
	}
}
