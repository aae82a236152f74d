// Package postgres is the workload of a PostgreSQL server: each trial starts one in a
// container, on a fresh copy of one cluster, and puts several loads on it, its parts,
// one after the other.
//
// # What is the same in every cell
//
// The cluster is made once for each image and scale: the template. Every trial copies it to
// the cell's storage, so each begins in the same phase, just after a checkpoint. tare's
// agent is the first process in every container and as a plain process: it copies the
// template, gives up root, keeps to the server's CPUs, and executes the server. All
// settings that matter are given on the server's command line and read back by SQL. What
// was read is compared between the cells, and a difference that was not asked for
// fails the trial.
//
// With entry=image the image's own entry point makes the cluster and starts the server, in each trial,
// and tare fills the tables. That is not the same in cells with different images, but what users get.
//
// # What is believed
//
// After loads that write, the tables must hold exactly what was acknowledged. The server's
// log must tell of no crash and no recovery.
package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/image"
)

// Name is the name of the workload.
const Name = "postgres"

// New returns the workload. images returns a library that finds images and keeps its
// files below dir.
func New(images func(dir string) *image.Library) bench.Workload { return workload{images} }

type workload struct {
	images func(dir string) *image.Library
}

func (workload) Name() string { return Name }

func (workload) Doc() string {
	return "A PostgreSQL server in the container and clients outside: transactions per second, their times, what the " +
		"server wrote for them, and whether the tables hold what was committed."
}

// defaultImage is the host's PostgreSQL, packed.
const defaultImage = "host:postgres"

// imageOf is the image of a cell.
func imageOf(t bench.Task) string {
	if t.Spec.Image == "" || t.Spec.Image == bench.AgentImage {
		return defaultImage
	}
	return t.Spec.Image
}

// Check implements bench.Workload.
func (w workload) Check(_ context.Context, t bench.Task) error {
	refused := func(why string) error { return fmt.Errorf("%w: %s", bench.ErrUnsupported, why) }
	_, tells := bench.As[bench.Addresser](t.Engine)
	_, remote := bench.As[bench.Remoter](t.Engine)
	switch {
	case len(t.Spec.Argv) > 0:
		return refused("workload postgres gives the server its arguments: leave argv out, and use option set")
	case remote:
		return refused("the cluster is copied from a directory of this host: run tare on that machine")
	case t.Spec.Network == "none" && t.Spec.Reach != bench.ReachSocket:
		return refused("network none: the server cannot be reached: use network host, bridge or socket")
	case t.Spec.Network == "macvlan":
		return refused("network macvlan: this host cannot reach it to check the server: use bridge")
	case t.Params["ssl"] == "yes" && t.Spec.Reach == bench.ReachSocket:
		return refused("ssl: PostgreSQL does not encrypt on a Unix socket: use another network, or ssl=no")
	case t.Params["ssl"] == "yes" && t.Spec.Reach == bench.ReachPeer:
		return refused("ssl: the client for TLS runs on this host, but network peer needs one in a container")
	case t.Params["tool"] != "" && t.Spec.Reach == bench.ReachPeer:
		return refused("tool pgbench runs on this host, but network peer needs a client in a container")
	case t.Spec.Reach != bench.ReachSocket && !tells:
		return refused(fmt.Sprintf("engine %s does not tell the addresses of its containers", t.Engine.Name()))
	}
	if why := checkEntry(t); why != "" {
		return refused(why)
	}
	if err := cmp.Or(w.CheckParams(t.Params), checkScript(t.Params["script"])); err != nil {
		return fmt.Errorf("%w: %w", bench.ErrUnsupported, err)
	}
	return nil
}

// TakesTurns implements bench.TurnTaker: tare's own clients do while they only read, in the closed loop.
// What writes cost comes later: in the turns of other cells.
func (workload) TakesTurns(params map[string]string) bool {
	o, err := parseOptions(params)
	return err == nil && !o.tls && !o.tool && params["connect"] == connectOnce &&
		!slices.ContainsFunc(o.parts, func(p part) bool { return p.writes() || p.rate != "0" || p.sweep != nil })
}

// RestingMemory implements bench.Hoarder: shared buffers, and the tables in the page cache.
func (workload) RestingMemory(params map[string]string) int64 {
	o, err := parseOptions(params)
	if err != nil {
		return 0 // the run will say so
	}
	pages, _ := bufferPages(o.server["shared_buffers"]) // it was validated
	return pages*pageSize + int64(o.scale)*eachScale
}

// Measures implements bench.PartMeasurer: metrics belong to a part, and in a sweep some of them to a step alone.
func (workload) Measures(params map[string]string, metric string) bool {
	o, err := parseOptions(params)
	name, _, _ := strings.Cut(metric, ".")
	if err != nil || !slices.Contains(allParts(), name) {
		return true
	}
	i := slices.IndexFunc(o.parts, func(p part) bool { return p.name == name })
	if i < 0 {
		return false
	}
	step, _ := strings.CutPrefix(metric[strings.LastIndex(metric, ".")+1:], "c")
	if clients, err := strconv.Atoi(step); err == nil {
		return slices.Contains(o.parts[i].sweep, clients)
	}
	return o.parts[i].sweep == nil || !isOfStep(strings.TrimPrefix(metric, name+"."))
}

// CheckParams implements bench.ParamChecker.
func (w workload) CheckParams(params map[string]string) error {
	o, err := parseOptions(params)
	if err != nil {
		return err
	}
	has := func(names ...string) bool {
		return slices.ContainsFunc(o.parts, func(p part) bool { return slices.Contains(names, p.name) })
	}
	switch swept := params["sweep"] != ""; {
	case (o.rate != "0" || o.script != defaultScript) && !has(partLoad):
		return errors.New("options script and rate are of part load: set parts=load, or leave them out")
	case swept && o.rate != "0":
		return errors.New("a sweep looks for what the server can do, and a rate fixes it: leave one of them out")
	case swept && !has(partRead, partWrite, partLoad):
		return errors.New("a sweep is of the parts read, write and load: add one of them, or leave sweep out")
	}
	return w.checkTool(o, params)
}
