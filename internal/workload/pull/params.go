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

// options are what an experiment asks for.
type options struct {
	fill     registry.Fill
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
		param("layers", "4", "how many layers of filler are put on the image, so that there is something to pull; 0: the image as it is"),
		param("size", "16MiB", "of the files of each of these layers together"),
		param("files", "256", "how many files each of them has"),
		param("compressible", "50", "how many percent of these bytes compression takes away"),
		param("bandwidth", "0", "bytes of layers per second that the registry sends in all, such as 10MiB; 0: as fast as it can"),
		param("connection", "0", "the same of each connection"),
		param("latency", "0s", "for how long the registry waits before each answer"),
	}, ready.Params(""))
}

// read reads what concerns the registry and what it serves.
func (o *options) read(a *load.Args) {
	const (
		layers = 100     // engines stop at 127
		files  = 100_000 // of a layer
		size   = 4 << 30 // of a layer
		rate   = 1 << 40 // bytes per second
	)
	o.fill = registry.Fill{
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
