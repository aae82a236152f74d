package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/report"
)

// outputDirFlag is the flag that names a directory for what a run says.
const outputDirFlag = "--output-dir"

// logName is the log in that directory: what tare tells people while the run lasts.
const logName = "log.txt"

// reportFiles are the reports in that directory, each with the name of its format.
func reportFiles() [][2]string {
	return [][2]string{{"results.json", "json"}, {"summary.md", "markdown"}}
}

// addDirFlag adds the flag to a command that measures.
func (o *formatOptions) addDirFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.dir, "output-dir", "", "also write results.json, summary.md and log.txt into this "+
		"`directory`, which is made")
}

// checkOutputDir says before anything is measured that a file is in the way. It makes nothing.
func checkOutputDir(dir string) error {
	if dir == "" {
		return nil
	}
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it will be made
	}
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is no directory", dir)
	}
	if err != nil {
		return badOutputDir(err)
	}
	names := []string{logName}
	for _, f := range reportFiles() {
		names = append(names, f[0])
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		if _, err := os.Lstat(path); err == nil {
			return badOutputDir(fmt.Errorf("%s already exists", path))
		} else if !errors.Is(err, fs.ErrNotExist) {
			return badOutputDir(err)
		}
	}
	return nil
}

func badOutputDir(err error) error {
	return &usageError{
		fmt.Errorf("%s: %w", outputDirFlag, err),
		"name another directory: each run needs one of its own, and nothing is overwritten",
	}
}

// beginLog makes the directory and the log in it. From then on, what is told on stderr is in the log too.
func (a *invocation) beginLog(dir string) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return badOutputDir(err)
	}
	f, err := createFile(outputDirFlag, filepath.Join(dir, logName))
	if err != nil {
		return err
	}
	a.log = &runLog{file: f, now: a.now}
	return nil
}

// dropLog removes the log of what could not begin, so that the directory can be named again. It returns err, and what
// else went wrong.
func (a *invocation) dropLog(err error) error {
	if a.log == nil {
		return err
	}
	log := a.log
	a.log = nil
	return errors.Join(err, log.close(), os.Remove(log.file.Name()))
}

// writeReports writes what a run says into the directory.
func writeReports(dir string, d *report.Document) error {
	if dir == "" {
		return nil
	}
	var errs []error
	formats := app.Formats()
	for _, file := range reportFiles() {
		format := formats[slices.IndexFunc(formats, func(f app.Format) bool { return f.Name == file[1] })]
		errs = append(errs, writeNewFile(outputDirFlag, filepath.Join(dir, file[0]), func(w io.Writer) error {
			return format.Write(w, d, app.Style{})
		}))
	}
	return errors.Join(errs...)
}

// A runLog is a file of what tare tells people, with the time of each message. Any goroutine may write.
type runLog struct {
	file *os.File
	now  func() time.Time

	mu  sync.Mutex
	err error // the first
}

// Write implements io.Writer for one message. It never fails: a log that cannot be written must not end the
// run, and close tells of it.
func (l *runLog) Write(message []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.file.WriteString(l.now().UTC().Format(time.RFC3339) + " " + string(message))
	if l.err == nil {
		l.err = err
	}
	return len(message), nil
}

// close returns the first error of writing.
func (l *runLog) close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := errors.Join(l.err, l.file.Close()); err != nil {
		return &outputError{fmt.Errorf("%s: write %s: %w", outputDirFlag, l.file.Name(), err)}
	}
	return nil
}
