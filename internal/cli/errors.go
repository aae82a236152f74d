package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/experiment"
	"github.com/tare-bench/tare/internal/run"
	"github.com/tare-bench/tare/internal/text/plain"
	"github.com/tare-bench/tare/internal/text/term"
)

// The exit codes; exitCodes explains them.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitTrials      = 3 // finished, but some trials failed
	exitUnsupported = 4
	exitWorse       = 5 // gate: worse by more than the margin
	exitUndecided   = 6 // gate: nothing can be said
	exitInterrupted = 130
)

// exitCodes explains the exit codes in the help.
const exitCodes = `Exit codes:
  0    success
  1    something failed
  2    wrong usage, such as an unknown word, file, image or run
  3    measured and stored, but some trials, parts of trials, or nodes failed
  4    this machine, or an engine on it, cannot do what was asked
  5    'tare gate': something is worse by more than the margin
  6    'tare gate': nothing can be said
  130  interrupted; measured trials are kept`

// usageError is a mistake in what the user typed, such as an unknown name.
type usageError struct {
	err  error
	hint string
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// usageErrorOf turns an error that wraps bench.ErrUnsupported into a usageError: the mistake is
// in what was typed, not in this machine.
func usageErrorOf(err error, hint string) error {
	return &usageError{errors.New(strings.Replace(err.Error(), bench.ErrUnsupported.Error()+": ", "", 1)), hint}
}

// flagError explains a mistake in a flag better than the parser does.
func flagError(cmd *cobra.Command, err error) error {
	var flag *pflag.InvalidValueError
	var number *strconv.NumError
	if errors.As(err, &flag) && errors.As(err, &number) {
		name, usage := pflag.UnquoteUsage(flag.GetFlag())
		err = fmt.Errorf("--%s %q: %w", flag.GetFlag().Name, flag.GetValue(), number.Err)
		return &usageError{err, fmt.Sprintf("write --%s %s: %s", flag.GetFlag().Name, name, usage)}
	}
	hint := cmd.CommandPath() + " --help lists the flags"
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
		if near, ok := experiment.Nearest(unknown.GetSpecifiedName(), known); ok {
			hint = fmt.Sprintf("did you mean --%s? %s", near, hint)
		}
	}
	return &usageError{err, hint}
}

// hintError is an error with what to do about it.
type hintError struct {
	err  error
	hint string
}

func (e *hintError) Error() string { return e.err.Error() }
func (e *hintError) Unwrap() error { return e.err }

// fail tells about an error and returns its exit code: the one place where
// errors become sentences and numbers.
func (a *invocation) fail(err error) int {
	code, hint := classify(err)
	if slices.Contains([]int{exitTrials, exitWorse, exitUndecided}, code) {
		return code // the report has said it
	}
	if space := a.fullDisk(err); space != "" {
		hint = strings.TrimSuffix(space+"; "+hint, "; ")
	}
	if a.global.JSON {
		if a.log != nil {
			fmt.Fprintln(a.log, "tare: "+indentContinuation(err.Error()))
		}
		a.failJSON(err, hint, code)
		return code
	}
	a.printMessage(err.Error(), hint)
	return code
}

// printMessage writes a message to stderr, and what to do about it. Lines after the first are
// indented, so that no foreign text in it passes for a message, or advice, of tare's.
func (a *invocation) printMessage(text, hint string) {
	a.printWrapped("tare: ", text)
	if hint != "" {
		a.printWrapped("  → ", hint)
	}
}

// printWrapped writes a text to stderr behind a prefix. A terminal would break its lines
// within words.
func (a *invocation) printWrapped(prefix, text string) {
	text = prefix + indentContinuation(text)
	if a.log != nil {
		fmt.Fprintln(a.log, text)
	}
	if width, ok := terminal(a.stderr); ok {
		var lines []string
		for line := range strings.SplitSeq(text, "\n") {
			lines = append(lines, foldLine(line, width)...)
		}
		text = strings.Join(lines, "\n")
	}
	a.told.Add(int64(strings.Count(text, "\n") + 1))
	fmt.Fprintln(a.stderr, text)
}

// foldLine breaks a line between words if it is too wide; what is below it is indented.
func foldLine(line string, width int) []string {
	if term.Width(line) <= width {
		return []string{line}
	}
	indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
	lines := term.Wrap(line, width-len(indent)-2)
	for i := range lines {
		if lines[i] = indent + lines[i]; i > 0 {
			lines[i] = "  " + lines[i]
		}
	}
	return lines
}

// indentContinuation is a text that may have several lines, the others below the first.
func indentContinuation(text string) string {
	return strings.ReplaceAll(plain.Text(strings.TrimRight(text, "\n")), "\n", "\n      ")
}

func (a *invocation) failJSON(err error, hint string, code int) {
	var out struct {
		Error struct {
			Message string `json:"message"`
			Hint    string `json:"hint,omitempty"`
			Code    int    `json:"exit_code"`
		} `json:"error"`
	}
	out.Error.Message, out.Error.Hint, out.Error.Code = err.Error(), hint, code
	_ = plain.WriteJSON(a.stderr, out, "") // nobody is left to tell
}

// classify returns the exit code of an error and what to do about it.
func classify(err error) (code int, hint string) {
	var usage *usageError
	var hinted *hintError
	isUsage := errors.As(err, &usage)
	switch {
	case errors.As(err, &hinted):
		hint = hinted.hint
	case isUsage:
		hint = usage.hint
	}
	for p := range app.Problems(err) {
		a := adviceFor(p)
		isUsage = isUsage || a.usage
		hint = cmp.Or(hint, a.hint)
	}
	switch {
	case isUsage:
		code = exitUsage
	case errors.Is(err, errWorse):
		code = exitWorse
	case errors.Is(err, errUndecided):
		code = exitUndecided
	case errors.Is(err, app.ErrTrialsFailed):
		code = exitTrials
	case errors.Is(err, run.ErrInterrupted), isInterrupt(err):
		code = exitInterrupted
	case errors.Is(err, bench.ErrUnsupported):
		code = exitUnsupported
	default:
		code = exitFailed
	}
	return code, cmp.Or(hint, generalHint(err))
}

// generalHint is for errors of the system that can come from anywhere.
func generalHint(err error) string {
	if hint := peerHint(err); hint != "" {
		return hint
	}
	var out *outputError
	switch {
	case errors.Is(err, syscall.ENOSPC) && errors.As(err, &out):
		return "no space is left for the output: choose another place; stored runs are complete"
	case (errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission)) && errors.As(err, &out):
		return "tare may not write there: choose another place for --output"
	case errors.Is(err, syscall.ENOSPC):
		return "the disk is full: free some space; measured trials are kept, and 'tare resume' continues the run"
	case errors.Is(err, syscall.EROFS):
		return "the file system is read-only: choose other places with --store FILE and --state DIR"
	case errors.Is(err, fs.ErrPermission):
		return "permission denied: run tare as root, or choose other places with --store FILE and --state DIR"
	default:
		return ""
	}
}
