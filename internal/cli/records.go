package cli

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/store/record"
)

// recordOutput is where the records of a run go beside the store: nowhere, to stdout, or to
// a file of their own.
type recordOutput struct {
	a    *invocation
	name string   // empty, "-", or that of the file
	file *os.File // nil unless it is open
}

// create begins a run in the store and in the output.
func (r *recordOutput) create(ctx context.Context, s bench.Store, h bench.Header) (bench.RunWriter, error) {
	if r.name == "" {
		return s.Create(ctx, h)
	}
	w, err := r.open()
	if err != nil {
		return nil, err
	}
	second, err := record.NewWriter(w, h)
	if err == nil {
		var first bench.RunWriter
		if first, err = s.Create(ctx, h); err == nil {
			return app.Tee(first, second), nil
		}
	}
	return nil, errors.Join(err, r.discard())
}

func (r *recordOutput) open() (io.Writer, error) {
	if r.name == "-" {
		return r.a.stdout, nil
	}
	f, err := createFile("--output", r.name)
	if err != nil {
		return nil, err
	}
	r.file = f
	return &result{Writer: f, what: "--output"}, nil
}

func (r *recordOutput) close() error {
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}

// discard removes the file of a run that did not begin.
func (r *recordOutput) discard() error {
	if r.file == nil {
		return nil
	}
	return errors.Join(r.file.Close(), removeFile(r.file.Name()))
}
