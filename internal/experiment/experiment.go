// Package experiment reads an experiment, written in YAML, and makes a
// bench.Plan of it.
//
// Reading is in two steps. Parse reads the file alone: its syntax, its keys
// and the form of its values. Plan then holds it to what this build of tare
// knows (workloads, engines), expands the matrix and fills in the defaults.
// Between the two, Override lays the command line's flags over the file. The
// same inputs always give the same plan: nothing is asked of the machine.
//
// One table of keys (fileKeys, specKeys) is the source of the parser, of the
// JSON schema for editors and of the reference in docs/experiment.md.
package experiment

//go:generate go run ./schemagen ../../docs

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/experiment/yamldoc"
)

// An Experiment is what a file says, and the flags laid over it.
type Experiment struct {
	file file
	src  yamldoc.Source
}

// Parse reads an experiment. name is the file's, for errors; without its
// directory and extension it is what the experiment is called if data does
// not say. The error is a *yamldoc.Error with everything that is wrong.
func Parse(name string, data []byte) (*Experiment, error) {
	root, src, err := readYAML(name, data)
	if err != nil {
		return nil, err
	}
	r := newReader(src)
	// what is wrong with it is in r
	f, _ := object("an experiment (a mapping of keys to values)", fileKeys()).read(r, root)
	if err := r.Err(); err != nil {
		return nil, err
	}
	if f.name == "" {
		f.name = strings.TrimSuffix(path.Base(name), path.Ext(name))
	}
	return &Experiment{file: f, src: src}, nil
}

// Name is what the experiment is called.
func (e *Experiment) Name() string { return e.file.name }

// Doc is the question that the experiment answers; it may be empty.
func (e *Experiment) Doc() string { return e.file.doc }

// Workload is the name of the experiment's workload. Whether there is one of
// that name is known only when the plan is made.
func (e *Experiment) Workload() string { return e.file.workload.value }

// Instances lists the engines that the experiment defines. An instance named
// like a built-in engine takes its place.
func (e *Experiment) Instances() []Instance {
	out := make([]Instance, len(e.file.engines))
	for i, in := range e.file.engines {
		out[i] = in.Instance
		out[i].Where = in.at.Flag
		if in.at.Flag == "" {
			out[i].Where = fmt.Sprintf("%s:%d:%d", e.src.Name, in.at.Line, in.at.Column)
		}
	}
	return out
}

// Overrides are the flags of the command line. Texts are written as in YAML;
// the zero value of a field leaves what the file says.
type Overrides struct {
	Factors   []Levels      // replaces the levels of a factor or condition, or adds a factor
	Params    []bench.Label // sets an option of the workload; where it was a factor, that has this one level
	Instances []Instance    // adds an engine, or replaces that of the same name; Where is not used
	Labels    []bench.Label // adds a label, or replaces that of the same key
	Primary   []string      // metrics
	// Precision and Smallest replace all that the file says of them ("3%"), or what
	// it says of one metric ("total=5%"), which holds beside the former.
	Precision, Smallest []string

	Baseline  string // the name of a cell, or FACTOR=LEVEL with commas between several
	Blocks    string // such as "20" or "10..500"
	Budget    string
	Washout   string
	Slice     string // interleave
	Trial     string // timeouts.trial
	Operation string // timeouts.operation
	Warmup    *int
	Seed      *uint64
	Control   *bool
	Syscalls  bool // true counts them; false leaves what the file says
	Timeline  int  // traces trials after every so many blocks
}

// Levels are a factor and its levels.
type Levels struct {
	Factor string
	Levels []string
	Flag   string // as the user wrote it, for errors; empty = "--FACTOR"
}

// Override lays flags over the file. Its error is a *yamldoc.Error, in which
// each problem has the Flag "--KEY" of the key that it replaces.
func (e *Experiment) Override(o Overrides) error {
	r := newReader(e.src)
	for _, l := range o.Factors {
		if flag := cmp.Or(l.Flag, "--"+l.Factor); !e.overrideFactor(r, flag, l) {
			e.addFactor(r, flag, l)
		}
	}
	for _, p := range o.Params {
		flag := "--param " + p.Key
		if !e.overrideFactor(r, flag, Levels{Factor: p.Key, Levels: []string{p.Value}}) {
			e.file.settings = append(slices.Clip(e.file.settings), paramSetting(p.Key, p.Value, yamldoc.Place{Flag: flag}))
		}
	}
	for _, i := range o.Instances {
		e.overrideInstance(i)
	}
	for _, l := range o.Labels {
		e.file.labels = slices.DeleteFunc(slices.Clone(e.file.labels), func(old bench.Label) bool { return old.Key == l.Key })
		e.file.labels = append(e.file.labels, l)
	}
	for _, f := range o.fields() {
		if k, ok := find(fileKeys(), f.Name); ok {
			k.read(r, f.Value, &e.file)
		}
	}
	for _, f := range o.timeouts() {
		if k, ok := find(timeoutKeys(), f.Name); ok {
			k.read(r, f.Value, &e.file.timeouts)
		}
	}
	return r.Err()
}

// fields turns flags into what the file could have said.
func (o Overrides) fields() []yamldoc.Field {
	var out []yamldoc.Field
	add := func(name, text string) {
		if text != "" {
			out = append(out, flagField(name, yamldoc.Node{Kind: yamldoc.Scalar, Text: text}))
		}
	}
	add("blocks", o.Blocks)
	out = append(out, flagByMetric("precision", o.Precision)...)
	out = append(out, flagByMetric("smallest", o.Smallest)...)
	add("budget", o.Budget)
	add("washout", o.Washout)
	add("interleave", o.Slice)
	if o.Warmup != nil {
		add("warmup", strconv.Itoa(*o.Warmup))
	}
	if o.Seed != nil {
		add("seed", strconv.FormatUint(*o.Seed, 10))
	}
	if o.Control != nil {
		add("control", strconv.FormatBool(*o.Control))
	}
	if o.Syscalls {
		add("syscalls", "true")
	}
	if o.Timeline != 0 {
		add("timeline", strconv.Itoa(o.Timeline))
	}
	if o.Primary != nil {
		out = append(out, flagField("primary", flagList("--primary", o.Primary)))
	}
	if o.Baseline != "" {
		out = append(out, flagField("baseline", flagBaseline(o.Baseline)))
	}
	return out
}

func (o Overrides) timeouts() []yamldoc.Field {
	var out []yamldoc.Field
	for _, t := range []struct{ name, text string }{{"trial", o.Trial}, {"operation", o.Operation}} {
		if t.text != "" {
			f := flagField(t.name, yamldoc.Node{Kind: yamldoc.Scalar, Text: t.text})
			f.Value.At.Flag = "--" + t.name + "-timeout"
			out = append(out, f)
		}
	}
	return out
}

// flagField is a field whose place is the flag of that name.
func flagField(name string, n yamldoc.Node) yamldoc.Field {
	n.At = yamldoc.Place{Flag: "--" + name}
	return yamldoc.Field{Name: name, At: n.At, Value: n}
}

func flagList(flag string, texts []string) yamldoc.Node {
	n := yamldoc.Node{Kind: yamldoc.List, At: yamldoc.Place{Flag: flag}}
	for _, t := range texts {
		n.Items = append(n.Items, yamldoc.Node{Kind: yamldoc.Scalar, Text: t, At: n.At})
	}
	return n
}

// flagBaseline reads "engine=runc,network=host" as levels and anything else
// as the name of a cell.
func flagBaseline(s string) yamldoc.Node {
	n := yamldoc.Node{Kind: yamldoc.Mapping, At: yamldoc.Place{Flag: "--baseline"}}
	for part := range strings.SplitSeq(s, ",") {
		name, level, ok := strings.Cut(part, "=")
		if !ok || !identifierForm.MatchString(name) {
			return yamldoc.Node{Kind: yamldoc.Scalar, Text: s}
		}
		n.Fields = append(n.Fields,
			yamldoc.Field{Name: name, At: n.At, Value: yamldoc.Node{Kind: yamldoc.Scalar, Text: level, At: n.At}})
	}
	// Cells are also called "docker cpus=2": with a space it is no level.
	return n
}

// overrideFactor replaces the levels of a factor and reports whether there is
// one. One that was a condition stays one, and a level that the file names
// keeps what the file says of it.
func (e *Experiment) overrideFactor(r *reader, flag string, l Levels) bool {
	f := yamldoc.Field{Name: l.Factor, At: yamldoc.Place{Flag: flag}, Value: flagList(flag, l.Levels)}
	for _, factors := range []*[]factor{&e.file.factors, &e.file.conditions} {
		for i, old := range *factors {
			if old.name == l.Factor {
				*factors = slices.Clone(*factors)
				(*factors)[i] = r.factor(f, old)
				return true
			}
		}
	}
	return false
}

// addFactor adds a factor that the file does not have.
func (e *Experiment) addFactor(r *reader, flag string, l Levels) {
	f := yamldoc.Field{Name: l.Factor, At: yamldoc.Place{Flag: flag}, Value: flagList(flag, l.Levels)}
	e.file.factors = append(slices.Clip(e.file.factors), r.factor(f, factor{}))
}

func (e *Experiment) overrideInstance(i Instance) {
	at := yamldoc.Place{Flag: "--engine " + i.Name}
	in := instance{Instance: i, at: at, driverAt: at, optionAt: map[string]yamldoc.Place{}}
	if in.Options == nil {
		in.Options = map[string]string{}
	}
	for name := range in.Options {
		in.optionAt[name] = at
	}
	same := func(old instance) bool { return old.Name == i.Name }
	e.file.engines = append(slices.DeleteFunc(e.file.engines, same), in)
}
