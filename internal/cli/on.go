package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/remote/peer"
)

// agentMeasureCommand is what 'tare run --on' starts on each host.
func (a *invocation) agentMeasureCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "measure",
		Short:  "Measure on this machine for the tare that has started this through ssh",
		Hidden: true,
		Args:   noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, tty := terminal(os.Stdin); tty {
				return &usageError{errors.New("'tare agent measure' speaks with another tare"), "use tare run --on HOST"}
			}
			t, err := a.newApp()
			if err != nil {
				return err
			}
			program, err := os.Executable()
			if err != nil {
				return err
			}
			in, out := peer.Stdio()
			return t.Host(cmd.Context(), in, out, filepath.Dir(program), peer.AddressOf(a.env("SSH_CONNECTION")))
		},
	}
}

// checkOn refuses flags that do not go with --on.
func checkOn(o planOptions, keep runOptions) error {
	for _, x := range []struct {
		flag string
		set  bool
		hint string
	}{
		{"--remote", o.remote != "", "--on measures on the other machines themselves"},
		{"--output", keep.output != "", "'tare export' writes the records of the hosts' runs"},
	} {
		if x.set {
			return &usageError{fmt.Errorf("--on and %s cannot be combined", x.flag), x.hint}
		}
	}
	return app.CheckHosts(keep.on)
}

// runOn plans, measures and reports on other hosts.
func (a *invocation) runOn(
	ctx context.Context, name string, o planOptions, format formatOptions, keep runOptions,
) error {
	if err := checkOn(o, keep); err != nil {
		return err
	}
	t, err := a.newApp()
	if err != nil {
		return err
	}
	e, err := a.experiment(name)
	if err != nil {
		return err
	}
	overrides, named, err := a.overrides(o)
	if err != nil {
		return err
	}
	if err := e.Override(overrides); err != nil {
		return &usageError{err: named(err)}
	}
	together, err := t.PlanTogether(ctx, e, keep.on)
	if err != nil {
		return named(err)
	}
	defer func() { a.notEnded(together.Close()) }()
	if err := a.beginLog(format.dir); err != nil {
		return err
	}
	for _, text := range together.ClocksApart() {
		a.notice("%s", text)
	}
	return a.withStore(ctx, func(s bench.Store) error {
		err := t.MeasureTogether(ctx, s, together, app.Options{Name: keep.name, Interrupt: a.interrupted})
		return a.concludeOn(ctx, s, together.Runs(), format, err)
	})
}

// resumeOn fetches what hosts have measured, and goes on there.
func (a *invocation) resumeOn(ctx context.Context, s bench.Store, stored *bench.Run, format formatOptions) error {
	t, err := a.newApp()
	if err != nil {
		return err
	}
	if err := a.beginLog(format.dir); err != nil {
		return err
	}
	ids, err := t.ResumeTogether(ctx, s, stored, app.Options{Interrupt: a.interrupted})
	if ids == nil {
		return a.dropLog(err)
	}
	return a.concludeOn(ctx, s, ids, format, err)
}

// concludeOn reports what is stored of runs that were measured together.
func (a *invocation) concludeOn(
	ctx context.Context, s bench.Store, ids []string, format formatOptions, runErr error,
) error {
	ctx = context.WithoutCancel(ctx)
	var stored []*bench.Run
	var names []string
	var failed error
	for _, id := range ids {
		r, err := s.Open(ctx, id)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return errors.Join(runErr, err)
		}
		if r.End != nil {
			outcome, _ := app.Conclude(r, nil, false)
			failed = errors.Join(failed, outcome)
		}
		discarded, err := app.Discard(ctx, s, r)
		runErr = errors.Join(runErr, err)
		if !discarded {
			stored, names = append(stored, r), append(names, id)
		}
	}
	short := app.NewShortener(ctx, s)
	var err error
	switch len(stored) {
	case 0:
		err = a.dropLog(nil)
	case 1:
		err = a.report(stored[0], format, shortIn(ctx, short), storedHint(stored[0], shortIn(ctx, short)))
	default:
		d, compareErr := a.comparison(ctx, s, names, "auto")
		if err = compareErr; err == nil {
			err = a.render(d, format)
		}
		if !a.global.JSON && !a.global.Quiet {
			for i := range names {
				names[i] = short.Short(ctx, names[i])
			}
			a.notice("saved as %s", strings.Join(names, ", "))
		}
	}
	if runErr == nil {
		runErr = failed
	}
	return errors.Join(short.Shorten(ctx, runErr), err)
}
