// Package cli is the command line: commands, flags, streams, hints and exit
// codes. What they do, package app does.
package cli

//go:generate go run ./clidoc docs ../../docs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/experiment"
)

// An invocation is one call of the program: the world that commands work in.
type invocation struct {
	stdin  io.Reader
	stdout *result
	stderr io.Writer
	env    func(string) string
	now    func() time.Time

	// interrupted is closed by the first SIGINT, SIGTERM or SIGHUP. It ends the
	// command's context too unless the command is graceful; the second does always.
	interrupted chan struct{}
	graceful    atomic.Bool
	continued   atomic.Int64 // how often this process went on after it was stopped
	saying      sync.Mutex   // held while what another machine says is shown
	told        atomic.Int64 // lines of messages on stderr, which are below what progress has drawn there

	global   globalOptions
	tare     *app.App
	narrator *narrator
	log      *runLog // has what is told on stderr, too; nil = none
}

// globalOptions are the flags that every command has.
type globalOptions struct {
	JSON    bool
	Store   string
	State   string
	Color   string
	Verbose bool
	Quiet   bool
}

// Main runs the command line and returns its exit code. It takes SIGINT and
// SIGTERM, and SIGHUP unless it is ignored, until it returns.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &invocation{
		stdin: stdin, stdout: newResult(stdout), stderr: stderr,
		env: os.Getenv, now: time.Now,
		interrupted: make(chan struct{}),
	}
	a.narrator = &narrator{watcher: &watcher{invocation: a}}
	a.tare = app.New(app.Config{
		Version: toolVersion(), SSH: a.env(sshVariable), Now: a.now, Observer: a.narrator, Stopped: a.continued.Load,
		Said: a.remoteSaid,
	})
	defer func() { a.notEnded(a.tare.Close()) }()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer a.handleSignals(cancel)()
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		err = a.stdout.err
	}
	code := exitOK
	switch {
	case err == nil:
	case a.isBrokenPipe(err):
		code = exitPipe
	default:
		code = a.fail(err)
	}
	if err := a.log.close(); err != nil {
		a.log = nil
		return a.fail(err)
	}
	return code
}

// handleSignals makes the first signal a request and the second one an order.
func (a *invocation) handleSignals(cancel context.CancelFunc) (stop func()) {
	// The reader of stdout may close it in the middle of a run. That must not end the
	// run before it has cleaned up: if the signal is caught, the write returns an error.
	// (If it were ignored, every container would ignore it too.)
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		signal.Notify(signals, syscall.SIGHUP) // a connection that is lost ends the run, and what it made
	}
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	done := make(chan struct{})
	go func() {
		first := true
		for {
			select {
			case <-done:
				return
			case <-continued:
				if first { // a service manager sends it after the signal that ends the run
					a.continued.Add(1)
				}
			case <-signals:
				if first {
					close(a.interrupted)
				}
				a.printSignal(first)
				if !first || !a.graceful.Load() {
					cancel()
				}
				first = false
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		signal.Stop(continued)
		signal.Stop(pipe)
		close(done)
	}
}

// printSignal says what a signal does to a run. On a terminal it first clears the
// line, which may show a "^C" and a progress bar.
func (a *invocation) printSignal(first bool) {
	if !a.graceful.Load() {
		return
	}
	if _, tty := terminal(a.stderr); tty {
		fmt.Fprint(a.stderr, "\r\x1b[K")
	}
	if first {
		a.notice("finishing what is being measured; interrupt again to abort it")
	} else {
		a.notice("aborting the trial and cleaning up")
	}
}

// Command returns the command tree for its reference pages. To run commands, use
// Main.
func Command() *cobra.Command {
	return (&invocation{stdout: newResult(io.Discard), stderr: io.Discard, env: func(string) string {
		return ""
	}, now: time.Now}).root()
}

func (a *invocation) root() *cobra.Command {
	showVersion := false
	root := &cobra.Command{
		Use:   "tare",
		Short: "Measure what containers cost and show which differences are real",
		Long: `tare measures what containers cost: one engine against another, one image
against another, or a container against no container at all. It says honestly
which differences are real.

To begin with:
  tare run             measure what a container costs here, in about two minutes
  tare run image A B   measure which of two images costs a service less
  tare doctor          show which engines work here and what disturbs measurements`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		DisableAutoGenTag: true,
		Args:              unknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if showVersion {
				return a.printVersion()
			}
			return cmd.Help()
		},
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			// A mistake in how to show a result must not come to light after the measurement.
			_, err := a.color()
			return errors.Join(err, outputNamed(cmd), a.checkLoudness())
		},
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetFlagErrorFunc(flagError)
	g := root.PersistentFlags()
	g.BoolVar(&a.global.JSON, "json", false, "print results and errors as JSON")
	g.StringVar(&a.global.Store, "store", "", "`file` that keeps all runs (default $TARE_STORE, else "+
		"$XDG_DATA_HOME/tare/tare.db)")
	g.StringVar(&a.global.State, "state", "", "`directory` for temporary run data (default $TARE_STATE, else "+
		"/var/lib/tare for root)")
	g.StringVar(&a.global.Color, "color", "auto", "`when` to use colour: auto, always, never")
	g.BoolVarP(&a.global.Quiet, "quiet", "q", false, "print only the result and errors: no progress, no notices")
	g.BoolVarP(&a.global.Verbose, "verbose", "v", false, "print more detail to stderr")
	root.AddCommand(
		a.runCommand(), a.explainCommand(), a.planCommand(), a.listCommand(), a.showCommand(), a.reportCommand(),
		a.gateCommand(),
		a.compareCommand(), a.exportCommand(), a.importCommand(), a.checkCommand(), a.resumeCommand(),
		a.noteCommand(), a.rmCommand(),
		a.imageCommand(), a.packCommand(), a.cleanCommand(), a.doctorCommand(), a.agentCommand(), a.versionCommand(),
		a.metricsCommand(), a.paramsCommand(), a.fleetCommand(),
	)
	root.Flags().BoolVar(&showVersion, "version", false, "print the version")
	root.SetHelpCommand(helpCommand())
	addCompletion(root)
	addCompletions(root)
	arrange(root)
	return root
}

// checkLoudness refuses to be quiet and verbose at once.
func (a *invocation) checkLoudness() error {
	if a.global.Quiet && a.global.Verbose {
		return &usageError{errors.New("--quiet and --verbose contradict each other"), "choose one of them"}
	}
	return nil
}

// unknownCommand refuses unknown commands.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return &usageError{fmt.Errorf("unknown command %q", args[0]), commandHint(cmd, args[0])}
}

// commandHint says which command was probably meant: one that other programs call so, or
// one with a similar spelling.
func commandHint(cmd *cobra.Command, word string) string {
	var known []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			known = append(known, c.Name())
		}
	}
	near, ok := experiment.Nearest(word, known)
	if !cmd.HasParent() {
		if hint := meant(word); hint != "" {
			return hint
		}
		switch word {
		case "remove", "delete":
			near, ok = "rm", true
		case "name", "rename", "tag":
			near, ok = "note", true
		case "ls", "runs":
			near, ok = "list", true
		case "inspect", "report":
			near, ok = "show", true
		case "init", "new":
			return "'tare plan NAME --yaml' prints an experiment to start from"
		}
	}
	if ok {
		return "did you mean " + near + "?"
	}
	return cmd.CommandPath() + " --help lists the commands"
}

// notice tells people something beside the result, unless they want only that.
func (a *invocation) notice(format string, args ...any) {
	if a.global.Quiet {
		return
	}
	a.printMessage(fmt.Sprintf(format, args...), "")
}

// terminal returns the width of w if it is a terminal.
func terminal(w io.Writer) (width int, ok bool) {
	f, isFile := w.(*os.File)
	if !isFile || !term.IsTerminal(int(f.Fd())) {
		return 0, false
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width <= 0 {
		width = defaultWidth
	}
	return width, true
}

// terminalHeight returns how many lines a terminal has; 0 for anything else.
func terminalHeight(w io.Writer) int {
	f, isFile := w.(*os.File)
	if !isFile {
		return 0
	}
	_, height, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return height
}

// defaultWidth is the width if stdout is not a terminal.
const defaultWidth = 80

// width is how wide text on stdout may be.
func (a *invocation) width() int {
	if w, ok := terminal(a.stdout.Writer); ok {
		return w
	}
	if w, ok := a.columns(); ok {
		return w
	}
	return defaultWidth
}

// columns is the width that $COLUMNS asks for where stdout is no terminal.
func (a *invocation) columns() (width int, ok bool) {
	width, err := strconv.Atoi(a.env("COLUMNS"))
	return width, err == nil && width > 0
}

// color reports whether text on stdout has colour.
func (a *invocation) color() (bool, error) {
	switch a.global.Color {
	case "always":
		return true, nil
	case "never":
		return false, nil
	case "auto":
		_, tty := terminal(a.stdout.Writer)
		return tty && a.env("NO_COLOR") == "" && a.env("TERM") != "dumb", nil
	default:
		return false, &usageError{
			err:  fmt.Errorf("invalid value %q for --color", a.global.Color),
			hint: "use auto, always or never",
		}
	}
}

// isInterrupt reports whether err is how a cancelled command ends.
func isInterrupt(err error) bool { return errors.Is(err, context.Canceled) }
