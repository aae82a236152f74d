package build

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/load"
)

// options are the options of a cell.
type options struct {
	builder string // as in bench.Build
	file    string // the user's build file; empty = generated, or context's
	context string // the user's context; empty = generated, or the file's directory
	content content
	steps   int // RUN steps of the generated file
}

// A content is that of a generated context.
type content struct {
	files int
	size  int64 // of all files, in bytes
}

// generated reports whether tare makes file and context.
func (o *options) generated() bool { return o.file == "" && o.context == "" }

const auto = "auto"

func (workload) Params() []bench.Param {
	param := func(name, def, doc string) bench.Param {
		return bench.Param{Name: name, Default: def, Doc: doc, Valid: func(v string) error {
			return load.Valid(name, v, func(a *load.Args) error { var o options; o.read(a); return a.Err() })
		}}
	}
	path := func(name, doc string) bench.Param {
		return bench.Param{Name: name, Doc: doc, Valid: func(v string) error {
			if v != "" && !filepath.IsAbs(v) {
				return fmt.Errorf("%.80q is not an absolute path", v)
			}
			return nil
		}}
	}
	return []bench.Param{
		{
			Name: "builder", Default: auto, Valid: bench.OneOf(auto, bench.BuilderClassic, bench.BuilderKit),
			Doc: "classic or buildkit, of engine docker; auto: what docker build uses by itself, or the engine's own",
		},
		path("file",
			"your own build file, an absolute path; default: Containerfile or Dockerfile in context, or a generated one"),
		path("context", "your own build context, an absolute path of a directory; default: the directory of file"),
		param("files", "64", "number of files in the generated context"),
		param("size", "16MiB", "bytes of these files in total"),
		param("steps", "3", "number of steps of the generated file that run a program"),
	}
}

// read reads the options of the generated file.
func (o *options) read(a *load.Args) {
	const size = 4 << 30
	o.content.files = int(a.Int("files", 64, 1, 100_000))
	o.content.size = a.Bytes("size", "16MiB", 1, size)
	o.steps = int(a.Int("steps", 3, 2, 50)) // one in each stage
}

// parse reads the options of a cell.
func parse(params map[string]string) (o options, err error) {
	own := map[string]string{}
	for _, name := range []string{"files", "size", "steps"} {
		own[name] = params[name]
	}
	args, err := load.ParseArgs(load.Words(own))
	if err != nil {
		return o, err
	}
	o.read(args)
	if o.builder = params["builder"]; o.builder == auto {
		o.builder = ""
	}
	o.file, o.context = params["file"], params["context"]
	for _, path := range []string{o.file, o.context} {
		if path != "" && !filepath.IsAbs(path) {
			err = errors.Join(err, fmt.Errorf("%.80q is not an absolute path", path))
		}
	}
	return o, errors.Join(err, args.Err())
}
