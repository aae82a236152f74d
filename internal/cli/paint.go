package cli

// The colours of the few words that have one.
const (
	green  = "32"
	yellow = "33"
	dim    = "90"
)

// painter returns a function that colours text, or leaves it alone where
// there is no terminal.
func (a *invocation) painter() (func(color, text string) string, error) {
	on, err := a.color()
	if err != nil {
		return nil, err
	}
	if !on {
		return func(_, text string) string { return text }, nil
	}
	return func(color, text string) string { return "\x1b[" + color + "m" + text + "\x1b[0m" }, nil
}

// verbose tells people more, if they asked for it.
func (a *invocation) verbose(format string, args ...any) {
	if a.global.Verbose {
		a.notice(format, args...)
	}
}
