package experiment

import (
	"fmt"
	"slices"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/experiment/yamldoc"
)

// A file is an experiment as it was written: every value read, with its place
// where a later check may find it wrong.
type file struct {
	name, doc  string
	workload   placed[string]
	factors    []factor // compared
	conditions []factor // the comparison is repeated under each
	exclude    []exclusion
	cells      []cell
	engines    []instance
	baseline   baseline
	settings   []setting // of spec and params: for every cell
	primary    []placed[string]

	blocks    blocks
	warmup    placed[int64]
	control   placed[bool]
	precision byMetric
	smallest  byMetric
	budget    placed[time.Duration]
	timeouts  timeouts
	washout   placed[time.Duration]
	slice     placed[time.Duration]
	seed      placed[uint64]
	syscalls  placed[bool]
	timeline  placed[int64]
	hooks     []bench.Hook
	labels    []bench.Label
}

type timeouts struct{ trial, operation placed[time.Duration] }

// fileKeys is the table of an experiment's keys, in the order in which a
// person would write them. It is read in this order: cells know the factors.
func fileKeys() []key[file] { return slices.Concat(comparisonKeys(), limitKeys(), trialKeys()) }

// comparisonKeys are the keys of what is compared, and by what.
func comparisonKeys() []key[file] {
	type f = file
	return []key[f]{
		fieldOf("name", "What the experiment is called. Default: the name of the file.", "name: network-cost", identifier(),
			func(f *f) *string { return &f.name }),
		fieldOf("doc", "One sentence: the question that it answers.", "doc: What does the bridge cost at start?", text(),
			func(f *f) *string { return &f.doc }),
		required(fieldOf("workload", "What is executed and measured, such as `lifecycle`.", "workload: lifecycle",
			located(text()), func(f *f) *placed[string] { return &f.workload })),
		factorsKey("factors", "What is compared: the cross product of these levels. Default: `engine: auto`.",
			"factors: {engine: [docker, podman], network: [none, host]}", func(f *f) *[]factor { return &f.factors }),
		factorsKey("conditions", "Factors that are not compared: the comparison is repeated at each of their levels, each "+
			"time with its own baseline.", "conditions: {cpus: [1, 2]}", func(f *f) *[]factor { return &f.conditions }),
		fieldOf("exclude", "Combinations of levels to leave out of the cross product.",
			"exclude: [{engine: native, network: [bridge]}]", listOf(exclusionValue()),
			func(f *f) *[]exclusion { return &f.exclude }),
		cellsKey(),
		fieldOf("engines", "Engine instances in addition to the built-in ones. An instance with the name of a built-in "+
			"engine replaces it.", "engines: {patched: {driver: oci, binary: /usr/local/bin/runc-patched}}", instances(),
			func(f *f) *[]instance { return &f.engines }),
		fieldOf("baseline", "What the other cells are compared with: levels, or the name of a cell. Default: "+
			"the first plain process (engine `native`), else the first cell.", "baseline: {engine: runc}", baselineValue(),
			func(f *f) *baseline { return &f.baseline }),
		settingsKey("spec", "Settings of every container.", "spec: {memory: 64MiB, network: host}", plainKeys(specKeys())),
		settingsOf(paramsKey()),
		fieldOf("primary", "The metrics that decide when the run is precise enough. Fewer metrics need fewer blocks. "+
			"Of a workload with parts, only those of parts that some cell has. Default: those of the workload.",
			"primary: [total]", listOf(located(text())),
			func(f *f) *[]placed[string] { return &f.primary }),
	}
}

// limitKeys are the keys of how long a run goes on, and how precise it has to be.
func limitKeys() []key[file] {
	type f = file
	return []key[f]{
		fieldOf("blocks", "Number of blocks: a range `MIN..MAX`, or `N` whatever the precision. The run ends earlier if "+
			"`budget` is used up. tare raises `MIN` if so few blocks could not settle all comparisons. Default: `10..500`.",
			"blocks: 10..500", blockRange(), func(f *f) *blocks { return &f.blocks }),
		byMetricKey("precision", "Stop when every primary comparison is this precise, or `off`: one value for all "+
			"metrics, or one for each named metric. A metric that `smallest` names gets half of that value, unless "+
			"`precision` names the metric or is one value for all. Default: `3%`.", "precision: 3%",
			withWord(openFraction(), "off", 0),
			func(f *f) *byMetric { return &f.precision }),
		fieldOf("budget", "Time limit, or `off`. The run stops after the block in which it is reached; one block is "+
			"always measured. Default: `2m`.", "budget: 2m", located(withWord(duration(), "off", 0)),
			func(f *f) *placed[time.Duration] { return &f.budget }),
		byMetricKey("smallest", "The smallest difference that matters: one value for all metrics, or one for each named "+
			"metric. `auto` is the larger of 1 % and the noise. Default: `auto`.", "smallest: {total: 2%}",
			withWord(openFraction(), "auto", 0), func(f *f) *byMetric { return &f.smallest }),
	}
}

// trialKeys are the keys of how trials are done, and what is noted of them.
func trialKeys() []key[file] {
	type f = file
	return []key[f]{
		fieldOf("warmup", "Number of warm-up blocks, which run first and are stored but not analysed. Default: `1`.",
			"warmup: 1", located(count(0, 1000)), func(f *f) *placed[int64] { return &f.warmup }),
		fieldOf("control", "Run the baseline twice in each block to measure the noise. If there is nothing to compare, "+
			"this must be written to have an effect. Default: `true`.", "control: true", located(boolean()),
			func(f *f) *placed[bool] { return &f.control }),
		fieldOf("timeouts", "The longest time for one trial, and for one measured operation in it. Default: `{trial: 60s, "+
			"operation: 30s}`.", "timeouts: {trial: 60s, operation: 30s}",
			object("a mapping with trial and operation", timeoutKeys()), func(f *f) *timeouts { return &f.timeouts }),
		fieldOf("washout", "The longest wait between trials for the machine to settle, or `off`. Default: `100ms`.",
			"washout: 200ms", located(withWord(duration(), "off", 0)), func(f *f) *placed[time.Duration] { return &f.washout }),
		fieldOf("interleave", "How long the turns are in which the cells of a block take turns: `auto` (20 ms where turns "+
			"change nothing), `off` (each trial runs whole) or a time. Default: `off`.", "interleave: 20ms",
			located(withWord(withWord(slice(), "off", 0), "auto", AutoSlice)),
			func(f *f) *placed[time.Duration] { return &f.slice }),
		fieldOf("seed", "Determines the order of trials. Default: a random number for each run, which is stored with it.",
			"seed: 42", located(seed()), func(f *f) *placed[uint64] { return &f.seed }),
		fieldOf("syscalls", "Count the system calls of containers, as a reason for differences. This slows every system "+
			"call of the machine. Default: `false`.", "syscalls: true", located(boolean()),
			func(f *f) *placed[bool] { return &f.syscalls }),
		fieldOf("timeline", "After every so many blocks, run each cell once more and trace where the time of its start "+
			"goes. Such a trial is in no other number. It is more often if a run of `blocks` would otherwise have fewer "+
			"than 6 of them. Default: none.", "timeline: 4", located(count(1, bench.MaxBlocks)),
			func(f *f) *placed[int64] { return &f.timeline }),
		fieldOf("hooks", "Actions on the host around trials. They are never timed.",
			"hooks: [{when: before-trial, do: drop-caches}]", listOf(hook()), func(f *f) *[]bench.Hook { return &f.hooks }),
		fieldOf("labels", "Your own notes, stored with the run.", "labels: {ticket: X-1}", labels(),
			func(f *f) *[]bench.Label { return &f.labels }),
	}
}

func timeoutKeys() []key[timeouts] {
	limit := located(duration())
	return []key[timeouts]{
		fieldOf("trial", "For one trial, without its cleanup.", "trial: 60s", limit,
			func(t *timeouts) *placed[time.Duration] { return &t.trial }),
		fieldOf("operation", "For one measured operation.", "operation: 30s", limit,
			func(t *timeouts) *placed[time.Duration] { return &t.operation }),
	}
}

// settingsKey makes a key whose value is given to every cell.
func settingsKey(name, doc, example string, keys []key[[]setting]) key[file] {
	v := object("a mapping", keys)
	return settingsOf(key[[]setting]{
		name: name, doc: doc, example: example, want: v.want, schema: v.schema,
		read: func(r *reader, n yamldoc.Node, out *[]setting) {
			s, _ := v.read(r, n) // what is wrong with it has been noted
			*out = append(*out, s...)
		},
	})
}

func settingsOf(k key[[]setting]) key[file] {
	return key[file]{
		name: k.name, doc: k.doc, example: k.example, want: k.want, schema: k.schema,
		read: func(r *reader, n yamldoc.Node, f *file) { k.read(r, n, &f.settings) },
	}
}

func hook() value[bench.Hook] {
	type h = bench.Hook
	v := object("a hook (a mapping with when and do)", []key[h]{
		required(fieldOf("when", "Before the run, each block or each trial, or after the run.", "when: before-trial",
			oneOf("time", bench.BeforeRun, bench.BeforeBlock, bench.BeforeTrial, bench.AfterRun),
			func(h *h) *bench.HookTime { return &h.When })),
		required(fieldOf("do", "`drop-caches`: sync, then free page cache, dentries and inodes. `restart-engine`: "+
			"the engine of the trial's cell, or of every cell. `command`: the host runs `argv`.", "do: drop-caches",
			oneOf("hook", bench.HookDropCaches, bench.HookRestartEngine, bench.HookCommand),
			func(h *h) *bench.HookKind { return &h.Do })),
		fieldOf("argv", "Program and arguments of a `command`; there is no shell.", "argv: [sync]", listOf(anyText()),
			func(h *h) *[]string { return &h.Argv }),
	})
	return checked(v, func(r *reader, n yamldoc.Node, h *h) bool {
		switch command := h.Do == bench.HookCommand; {
		case command && h.Argv == nil:
			r.Fail(n.At, "a command hook needs argv", "write argv: [program, argument]")
		case !command && h.Argv != nil:
			r.Fail(n.At, fmt.Sprintf("hook %q runs no command", h.Do), "leave out argv, or write do: command")
		default:
			return true
		}
		return false
	})
}

func labels() value[[]bench.Label] {
	return convert(named("a mapping of names to texts", text()), func(entries []entry[string]) []bench.Label {
		out := make([]bench.Label, len(entries))
		for i, e := range entries {
			out[i] = bench.Label{Key: e.name, Value: e.value}
		}
		return out
	})
}

// belongs says where a key belongs that was written in the wrong place.
func belongs(name string, here []string) (hint string, ok bool) {
	top := keyNames(fileKeys())
	if slices.Contains(top, name) && !slices.Equal(here, top) {
		return fmt.Sprintf("%q is a key of the experiment itself: indent it less", name), true
	}
	for _, k := range cellKeys() {
		switch {
		case k.name != name:
		case k.factor:
			return fmt.Sprintf("%q belongs below factors (to compare its levels) or below spec (one value for all cells)",
				name), name != "engine"
		default:
			return fmt.Sprintf("%q belongs below spec", name), true
		}
	}
	return "", false
}
