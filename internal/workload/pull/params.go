package pull

import (
	"errors"
	"slices"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/image/registry"
	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/supervise/ready"
)

// options are the options of a cell.
type options struct {
	fill     registry.Padding
	registry registry.Options
	ready    ready.Condition
}

func (workload) Params() []bench.Param {
	param := func(name, def, doc string) bench.Param {
		return bench.Param{Name: name, Default: def, Doc: doc, Valid: func(v string) error {
			return load.Valid(name, v, func(a *load.Args) error { var o options; o.read(a); return a.Err() })
		}}
	}
	return slices.Concat([]bench.Param{
		param("layers", "4",
			"number of filler layers added to the image, so that there is something to pull; 0: the image as it is"),
		param("size", "16MiB", "total size of the files in each of these layers"),
		param("files", "256", "number of files in each of these layers"),
		param("compressible", "50", "percentage of these bytes that compression removes"),
		param("bandwidth", "0", "layer bytes per second that the registry sends in total, such as 10MiB; 0: no limit"),
		param("connection", "0", "layer bytes per second that the registry sends on each connection; 0: no limit"),
		param("latency", "0s", "how long the registry waits before each answer"),
	}, ready.Params(""))
}

// read reads the options of the registry and its content.
func (o *options) read(a *load.Args) {
	const (
		layers = 100     // engines stop at 127
		files  = 100_000 // of a layer
		size   = 4 << 30 // of a layer
		rate   = 1 << 40 // bytes per second
	)
	o.fill = registry.Padding{
		Layers:       int(a.Int("layers", 4, 0, layers)),
		Size:         a.Bytes("size", "16MiB", 1, size),
		Files:        int(a.Int("files", 256, 1, files)),
		Compressible: float64(a.Int("compressible", 50, 0, 100)) / 100,
	}
	o.registry = registry.Options{
		Bandwidth:     float64(a.Bytes("bandwidth", "0", 0, rate)),
		PerConnection: float64(a.Bytes("connection", "0", 0, rate)),
		Latency:       a.Duration("latency", 0, 0, 10*time.Second),
	}
}

// parse reads the options of a cell.
func parse(params map[string]string) (o options, err error) {
	own := map[string]string{}
	for _, name := range []string{"layers", "size", "files", "compressible", "bandwidth", "connection", "latency"} {
		own[name] = params[name]
	}
	args, err := load.ParseArgs(load.Words(own))
	if err != nil {
		return o, err
	}
	o.read(args)
	condition, err := ready.Parse(params)
	o.ready = condition
	return o, errors.Join(args.Err(), err)
}
