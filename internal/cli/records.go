package cli

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/record"
)

// output is where the records of a run go as well.
type output struct {
	w    io.Writer // nil for nowhere
	file *os.File  // nil unless w is a file of its own
}

func (a *invocation) openOutput(name string) (output, error) {
	switch name {
	case "":
		return output{}, nil
	case "-":
		return output{w: a.stdout}, nil
	}
	f, err := createFile(name)
	if err != nil {
		return output{}, err
	}
	return output{&result{Writer: f, what: "--output"}, f}, nil
}

// create begins a run in the store and in the output.
func (o output) create(ctx context.Context, s bench.Store, h bench.Header) (bench.RunWriter, error) {
	if o.w == nil {
		return s.Create(ctx, h)
	}
	second, err := record.NewWriter(o.w, h)
	if err != nil {
		return nil, err
	}
	first, err := s.Create(ctx, h)
	return bothWriters{first, second}, err
}

func (o output) close() error {
	if o.file == nil {
		return nil
	}
	return o.file.Close()
}

// discard removes the output of a run that did not begin.
func (o output) discard() error {
	if o.file == nil {
		return nil
	}
	return errors.Join(o.file.Close(), removeFile(o.file.Name()))
}

// bothWriters appends to two places. The first is the one that counts: the
// second never has what it lacks.
type bothWriters struct{ first, second bench.RunWriter }

func (b bothWriters) Append(ctx context.Context, s bench.Sample) error {
	if err := b.first.Append(ctx, s); err != nil {
		return err
	}
	return b.second.Append(ctx, s)
}

func (b bothWriters) Finish(ctx context.Context, e bench.End) error {
	if err := b.first.Finish(ctx, e); err != nil {
		return err
	}
	return b.second.Finish(ctx, e)
}

func (b bothWriters) Close() error { return errors.Join(b.first.Close(), b.second.Close()) }
