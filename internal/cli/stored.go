package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"

	"github.com/tare-bench/tare/internal/bench"
)

// withRuns opens the store for what only reads it, or goes on with what is
// there: a store that does not exist is not made. The default one, and that of
// $TARE_STORE, has no runs then; one that the user names for this command is a
// mistake.
func (a *invocation) withRuns(ctx context.Context, f func(bench.Store) error) error {
	path, err := a.storePath()
	if err != nil {
		return err
	}
	_, err = os.Stat(path)
	switch {
	case !errors.Is(err, fs.ErrNotExist):
		return a.withStore(ctx, f)
	case a.global.Store != "":
		return &usageError{fmt.Errorf("store: there is no file %s", path), "--store FILE names a file of stored runs; 'tare run' and 'tare import' make it"}
	default:
		return f(noRuns{})
	}
}

// noRuns is the store before the first run.
type noRuns struct{}

var _ bench.Store = noRuns{}

func (noRuns) Create(context.Context, bench.Header) (bench.RunWriter, error) {
	return nil, errors.ErrUnsupported // nobody who writes is given it
}

func (noRuns) Resume(context.Context, string, bench.Resumption) (bench.RunWriter, error) {
	return nil, fs.ErrNotExist
}

func (noRuns) Open(context.Context, string) (*bench.Run, error) { return nil, fs.ErrNotExist }

func (noRuns) Runs(context.Context) iter.Seq2[bench.RunSummary, error] {
	return func(func(bench.RunSummary, error) bool) {}
}

func (noRuns) Find(context.Context, string, int) ([]string, error) { return nil, nil }

func (noRuns) Close() error { return nil }
