package cli

import "github.com/tare-bench/tare/internal/text/term"

// lineWidth is how wide lines on stdout may be. What is not a terminal is for programs, and
// has no limit unless $COLUMNS asks for one.
func (a *invocation) lineWidth() int {
	if w, tty := terminal(a.stdout.Writer); tty {
		return w
	}
	if w, ok := a.columns(); ok {
		return w
	}
	return term.Unlimited
}
