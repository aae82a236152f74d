package cli

import (
	"fmt"
	"strings"
)

// ExitCodesTable is the table of exit codes in the docs, in Markdown. What it says is what
// 'tare --help' says.
func ExitCodesTable() []byte {
	var b strings.Builder
	b.WriteString("| exit code | meaning |\n| --- | --- |\n")
	_, codes, _ := strings.Cut(exitCodes, "\n")
	for line := range strings.Lines(codes) {
		code, meaning, _ := strings.Cut(strings.TrimSpace(line), " ")
		fmt.Fprintf(&b, "| %s | %s |\n", code, strings.TrimSpace(meaning))
	}
	fmt.Fprintf(&b, "| %d | the reader of stdout is gone, as with `tare list \\| head` |\n", exitPipe)
	return []byte(b.String())
}
