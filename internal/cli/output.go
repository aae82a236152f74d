package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/tare-bench/tare/internal/app"
)

// exitPipe is what a shell makes of a program that SIGPIPE ended.
const exitPipe = 128 + int(syscall.SIGPIPE)

// outputError is an error of writing where the user wants the output, and not
// of the store.
type outputError struct{ err error }

func (e *outputError) Error() string { return e.err.Error() }
func (e *outputError) Unwrap() error { return e.err }

// result is stdout, or a file that the user named. It remembers the first
// error, so that a result on a full disk is a failure, whichever code wrote it.
type result struct {
	io.Writer
	what string // what cannot be done, for the error
	err  error
}

func newResult(stdout io.Writer) *result { return &result{Writer: stdout, what: "write the result"} }

func (o *result) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if err == nil {
		return n, nil
	}
	err = &outputError{fmt.Errorf("%s: %w", o.what, err)}
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// isBrokenPipe reports whether the reader of stdout has closed it. That needs no message.
func (a *invocation) isBrokenPipe(err error) bool {
	return errors.Is(a.stdout.err, syscall.EPIPE) && errors.Is(err, syscall.EPIPE)
}

// createFile makes a file that must not exist: nothing that a user has is
// overwritten. A device is written to.
func createFile(flag, name string) (*os.File, error) {
	flags := os.O_CREATE | os.O_EXCL | os.O_WRONLY
	if isDevice(name) {
		flags = os.O_WRONLY
	}
	f, err := os.OpenFile(name, flags, 0o644)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil, &usageError{fmt.Errorf("%s: %s already exists", flag, name), "choose another name, or remove it first"}
	case errors.Is(err, fs.ErrNotExist):
		return nil, &usageError{fmt.Errorf("%s: %w", flag, err), "create the directory first, or choose another name"}
	case err != nil:
		return nil, &outputError{fmt.Errorf("%s: %w", flag, err)}
	}
	return f, nil
}

// checkNewFile says before a run begins that a file could not be made after it. Nothing is left.
func checkNewFile(flag, name string) error {
	f, err := createFile(flag, name)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), removeFile(name))
}

// writeNewFile makes a file; one that could not be written whole is removed.
func writeNewFile(flag, name string, write func(io.Writer) error) error {
	f, err := createFile(flag, name)
	if err != nil {
		return err
	}
	if err := errors.Join(write(f), f.Close()); err != nil {
		return &outputError{fmt.Errorf("%s: write %s: %w", flag, name, errors.Join(err, removeFile(name)))}
	}
	return nil
}

// outputNamed refuses a file with an empty name, such as from a variable that a script has not set.
// Nobody who writes that wants no output.
func outputNamed(cmd *cobra.Command) error {
	for _, name := range fileFlags() {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed && f.Value.String() == "" {
			return &usageError{fmt.Errorf("--%s has an empty name", name), "give a name, or leave out --" + name}
		}
	}
	return nil
}

// fileFlags are the flags that name a file to write, or a directory of them.
func fileFlags() []string {
	all := []string{"output", "output-dir", "html"}
	for _, x := range app.GateFiles() {
		all = append(all, x.Name)
	}
	return all
}

// isDevice reports whether a name is that of a device such as /dev/null or
// /dev/stderr: nothing in it can be overwritten.
func isDevice(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode()&fs.ModeCharDevice != 0
}

// removeFile deletes what createFile made.
func removeFile(name string) error {
	if isDevice(name) {
		return nil
	}
	return os.Remove(name)
}
