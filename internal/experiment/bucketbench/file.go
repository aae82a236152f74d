package bucketbench

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tare-bench/tare/internal/experiment/yamldoc"
)

// The largest numbers that are taken over; the workload has none larger.
// Bucketbench has no bounds.
const (
	maxDrivers    = 20
	maxCommands   = 98 // a sequence of tare's has 100 operations: run is two of them, and a remove may be added
	maxThreads    = 1000
	maxIterations = 10_000
)

// A file is what a file for bucketbench says.
type file struct {
	name, image, command, rootfs word
	detached                     flag
	drivers                      []driver
	commands                     []word
}

// A driver is one of the file's drivers.
type driver struct {
	at            yamldoc.Place
	kind          word
	client        word // clientpath, which was binary in 2017
	usesBinaryKey bool // it says binary
	threads       number
	iterations    number
	logDriver     word
	cgroupPath    word
	streamStats   flag
	statsInterval number
}

// A word is one line of text; its line is 0 if there is none.
type word struct {
	text string
	at   yamldoc.Place
}

func (w word) set() bool { return w.text != "" }

// A number and a flag are their values and places likewise.
type (
	number struct {
		value int
		at    yamldoc.Place
	}
	flag struct {
		value bool
		at    yamldoc.Place
	}
)

// A reader collects the problems of one file.
type reader struct{ yamldoc.Problems }

// A key is one key of a mapping, and how its value is read into T.
type key[T any] struct {
	name string
	read func(r *reader, n yamldoc.Node, into *T)
}

func fileKeys() []key[file] {
	return []key[file]{
		{"name", func(r *reader, n yamldoc.Node, f *file) { f.name = r.word(n) }},
		{"image", func(r *reader, n yamldoc.Node, f *file) { f.image = r.word(n) }},
		{"command", func(r *reader, n yamldoc.Node, f *file) { f.command = r.word(n) }},
		{"rootfs", func(r *reader, n yamldoc.Node, f *file) { f.rootfs = r.word(n) }},
		{"detached", func(r *reader, n yamldoc.Node, f *file) { f.detached = r.flag(n) }},
		{"drivers", func(r *reader, n yamldoc.Node, f *file) { f.drivers = r.drivers(n) }},
		{"commands", func(r *reader, n yamldoc.Node, f *file) { f.commands = r.commands(n) }},
	}
}

func driverKeys() []key[driver] {
	return []key[driver]{
		{"type", func(r *reader, n yamldoc.Node, d *driver) { d.kind = r.word(n) }},
		{"clientpath", func(r *reader, n yamldoc.Node, d *driver) { d.client = r.word(n) }},
		{"binary", func(r *reader, n yamldoc.Node, d *driver) { d.client, d.usesBinaryKey = r.word(n), true }},
		{"threads", func(r *reader, n yamldoc.Node, d *driver) { d.threads = r.number(n, 1, maxThreads) }},
		{"iterations", func(r *reader, n yamldoc.Node, d *driver) { d.iterations = r.number(n, 1, maxIterations) }},
		{"logDriver", func(r *reader, n yamldoc.Node, d *driver) { d.logDriver = r.word(n) }},
		{"logOpts", func(r *reader, n yamldoc.Node, _ *driver) { r.logOpts(n) }},
		{"cgroupPath", func(r *reader, n yamldoc.Node, d *driver) { d.cgroupPath = r.word(n) }},
		{"streamStats", func(r *reader, n yamldoc.Node, d *driver) { d.streamStats = r.flag(n) }},
		{"statsIntervalSec", func(r *reader, n yamldoc.Node, d *driver) { d.statsInterval = r.number(n, 0, maxIterations) }},
	}
}

// readKeys reads a mapping. A key without a value is as good as none.
func readKeys[T any](r *reader, n yamldoc.Node, keys []key[T], into *T) {
	if n.Kind != yamldoc.Mapping {
		r.WrongKind(n, "a mapping of keys to values")
		return
	}
	for _, f := range n.Fields {
		i := slices.IndexFunc(keys, func(k key[T]) bool { return k.name == f.Name })
		switch {
		case i < 0:
			r.Fail(f.At, "unknown key "+yamldoc.Quote(f.Name), knownKeys(f.Name, keys))
		case f.Value.Kind != yamldoc.Null:
			keys[i].read(r, f.Value, into)
		}
	}
}

// knownKeys says what an unknown key may have meant.
func knownKeys[T any](name string, keys []key[T]) string {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.name
	}
	return suggestion(name, "the keys here are ", names)
}

// suggestion says what an unknown word may have meant: the one that differs in
// upper and lower case alone, or else any.
func suggestion(word, all string, known []string) string {
	for _, k := range known {
		if strings.EqualFold(k, word) {
			return fmt.Sprintf("did you mean %q?", k)
		}
	}
	return all + strings.Join(known, ", ")
}

// file reads the whole file and checks what bucketbench cannot do without.
func (r *reader) file(root yamldoc.Node) file {
	var f file
	readKeys(r, root, fileKeys(), &f)
	if r.Err() != nil {
		return f
	}
	switch {
	case !f.image.set():
		r.Fail(root.At, `key "image" is missing`, "bucketbench needs it for every driver: write image: alpine:latest")
	case len(f.drivers) == 0:
		r.Fail(root.At, `key "drivers" is missing`, "name at least one: {type: Docker, threads: 3, iterations: 10}")
	case len(f.commands) == 0:
		r.Fail(root.At, `key "commands" is missing`, "name at least one: [run, stop, remove]")
	}
	return f
}

func (r *reader) drivers(n yamldoc.Node) []driver {
	if n.Kind != yamldoc.List {
		r.WrongKind(n, "a list of drivers")
		return nil
	}
	if len(n.Items) > maxDrivers {
		r.Fail(n.Items[maxDrivers].At, fmt.Sprintf("the file has more than %d drivers", maxDrivers), "split the file")
		return nil
	}
	var out []driver
	for _, item := range n.Items {
		d := driver{at: item.At}
		readKeys(r, item, driverKeys(), &d)
		if item.Kind == yamldoc.Mapping {
			r.checkDriver(d)
		}
		out = append(out, d)
	}
	return out
}

// checkDriver wants what bucketbench runs nothing without.
func (r *reader) checkDriver(d driver) {
	_, known := typeOf(d)
	switch {
	case !d.kind.set():
		r.Fail(d.at, `key "type" is missing`, "the types are "+strings.Join(typeNames(), ", "))
	case !known:
		r.Fail(d.kind.at, "unknown type "+yamldoc.Quote(d.kind.text), suggestion(d.kind.text, "the types are ", typeNames()))
	}
	if d.threads == (number{}) {
		r.Fail(d.at, `key "threads" is missing`, "without it bucketbench runs nothing: write threads: 1")
	}
	if d.iterations == (number{}) {
		r.Fail(d.at, `key "iterations" is missing`, "without it bucketbench runs nothing: write iterations: 10")
	}
}

func (r *reader) commands(n yamldoc.Node) []word {
	if n.Kind != yamldoc.List {
		r.WrongKind(n, "a list of commands")
		return nil
	}
	if len(n.Items) > maxCommands {
		r.Fail(n.Items[maxCommands].At, fmt.Sprintf("the file has more than %d commands", maxCommands), "")
		return nil
	}
	var out []word
	for _, item := range n.Items {
		out = append(out, r.word(item))
	}
	return out
}

// logOpts are the log driver's, which is not used.
func (r *reader) logOpts(n yamldoc.Node) {
	if n.Kind != yamldoc.Mapping {
		r.WrongKind(n, "a mapping of options to values")
	}
}

// word reads one line of text, as an experiment can have it.
func (r *reader) word(n yamldoc.Node) word {
	const most = 900 // less than an experiment's, because some get a prefix
	text := strings.TrimSpace(n.Text)
	switch {
	case n.Kind != yamldoc.Scalar:
		r.WrongKind(n, "text")
	case utf8.RuneCountInString(text) > most:
		r.Fail(n.At, fmt.Sprintf("the text is longer than %d characters", most), "")
	case strings.ContainsFunc(text, unicode.IsControl):
		r.Fail(n.At, yamldoc.Quote(text)+" is not one line of text", "")
	}
	return word{text, n.At}
}

func (r *reader) number(n yamldoc.Node, least, most int) number {
	value, err := strconv.Atoi(n.Text)
	switch {
	case n.Kind != yamldoc.Scalar:
		r.WrongKind(n, "a number")
	case err != nil || value < least || value > most:
		r.Fail(n.At, fmt.Sprintf("%s is not a whole number from %d to %d", yamldoc.Quote(n.Text), least, most), "")
	}
	return number{value, n.At}
}

// flag reads true and false, and the other words that bucketbench's YAML has
// for them.
func (r *reader) flag(n yamldoc.Node) flag {
	switch strings.ToLower(n.Text) {
	case "true", "yes", "on", "y":
		return flag{true, n.At}
	case "false", "no", "off", "n":
		return flag{false, n.At}
	}
	r.Fail(n.At, yamldoc.Quote(n.Text)+" is neither true nor false", "")
	return flag{at: n.At}
}
