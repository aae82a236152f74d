package bucketbench

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/experiment/yamldoc"
)

// A converter makes an experiment of a file.
type converter struct {
	*reader
	file  file
	used  []driverType // of file.drivers, in their order
	notes []yamldoc.Note
}

// note adds a difference, unless it has been noted before.
func (c *converter) note(at yamldoc.Place, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !slices.ContainsFunc(c.notes, func(n yamldoc.Note) bool { return n.Text == text }) {
		c.notes = append(c.notes, yamldoc.Note{Line: at.Line, Text: text})
	}
}

// types names the types of the file for which f reports true, with commas.
func (c *converter) types(f func(driverType) bool) string {
	var names []string
	for _, t := range c.used {
		if f(t) && !slices.Contains(names, t.name) {
			names = append(names, t.name)
		}
	}
	return strings.Join(names, ", ")
}

func (c *converter) experiment() Experiment {
	for _, d := range c.file.drivers {
		t, _ := typeOf(d) // it has been checked
		c.used = append(c.used, t)
	}
	e := Experiment{
		Name: c.experimentName(), Image: c.image(), Argv: c.argv(), Engines: c.engines(),
		Operations: c.operations(), Network: c.network(),
	}
	e.Concurrency = c.concurrency(e.Engines)
	c.noteFile()
	c.limits(&e)
	return e
}

// foreign is what a name of tare's does not have.
var foreign = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// experimentName is the file's name in the letters that tare's names have.
func (c *converter) experimentName() string {
	w := c.file.name
	name := foreign.ReplaceAllString(w.text, "-")
	name = strings.Trim(name[:min(len(name), 64)], "._-")
	if name != w.text {
		c.note(w.at, "the name %s becomes %s, with the characters that tare allows in names", yamldoc.Quote(w.text),
			yamldoc.Quote(name))
	}
	return name
}

// image is the image by the name that every engine here knows. Containerd
// wants it in full, and so do names that mean something else to tare.
func (c *converter) image() string {
	w := c.file.image
	name := w.text
	taken := name == "agent" || strings.HasPrefix(name, "oci:") || strings.HasPrefix(name, "tar:")
	if taken || c.types(func(t driverType) bool { return t.driver == "containerd" }) != "" {
		name = fullName(name)
	}
	if c.types(func(t driverType) bool { return t.driver != "oci" }) != "" {
		c.note(w.at, "tare does not pull images: before the run, pull %s into the store of each engine that has one",
			yamldoc.Quote(name))
	}
	if bundles := c.types(func(t driverType) bool { return t.bundle }); bundles != "" {
		c.noteBundles(bundles)
	}
	return name
}

// noteBundles is about the types that ran a directory with a config.json.
func (c *converter) noteBundles(bundles string) {
	at, dir := c.file.rootfs.at, yamldoc.Quote(c.file.rootfs.text)
	if !c.file.rootfs.set() {
		at, dir = c.file.image.at, "at rootfs"
	}
	c.note(at, "%s ran the bundle %s with its config.json; here all engines run the image", bundles, dir)
	if c.types(func(t driverType) bool { return t.driver == "oci" }) != "" {
		c.note(at, "tare's OCI runtimes need the image in a file; without it their cells are not supported. Make one, "+
			"such as "+
			"with `docker save %s -o /srv/image.tar`, and use `--image tar:/srv/image.tar`, which every engine here can load",
			c.file.image.text)
	}
}

// fullName is an image's name with registry and tag, as bucketbench gave it to
// containerd.
func fullName(image string) string {
	host, rest, ok := strings.Cut(image, "/")
	if !ok || !strings.ContainsAny(host, ".:") && host != "localhost" {
		host, rest = "docker.io", image
	}
	if host == "docker.io" && !strings.Contains(rest, "/") {
		rest = "library/" + rest
	}
	if !strings.Contains(rest, ":") {
		rest += ":latest"
	}
	return host + "/" + rest
}

// argv splits the command as bucketbench does: at spaces, and there is no shell.
func (c *converter) argv() []string {
	w := c.file.command
	if !w.set() {
		return nil
	}
	if strings.ContainsAny(w.text, `'"\`) {
		c.note(w.at, "bucketbench splits the command at spaces and ignores quotes; tare does the same")
	}
	if bundles := c.types(func(t driverType) bool { return t.bundle }); bundles != "" {
		c.note(w.at, "%s ignored command; here every engine runs it", bundles)
	}
	if docker := c.types(func(t driverType) bool { return t.driver == "docker" }); docker != "" {
		c.note(w.at, "with %s, the command followed the image's entry point; argv replaces the entry point, so write it "+
			"first if the image has one", docker)
	}
	return strings.Fields(w.text)
}

// network is what containers had where all engines are Docker. Otherwise they
// have none, as with every engine but Docker and CRI.
func (c *converter) network() string {
	docker := c.types(func(t driverType) bool { return t.driver == "docker" })
	if c.types(func(t driverType) bool { return t.driver != "docker" }) == "" {
		return "bridge"
	}
	if docker != "" {
		i := slices.IndexFunc(c.used, func(t driverType) bool { return t.driver == "docker" })
		c.note(c.file.drivers[i].kind.at, "Docker gave its containers a bridge network, which takes time; here they have "+
			"no network, like those of the other engines, "+
			"unless their level sets network: bridge")
	}
	return ""
}

// engines makes an engine of each driver. Two that are one to tare become one.
func (c *converter) engines() []Engine {
	var out []Engine
	var lines []int
	for i, d := range c.file.drivers {
		c.noteDriver(d, c.used[i])
		e := c.engine(d, c.used[i])
		same := slices.IndexFunc(out, func(o Engine) bool {
			return o.Driver == e.Driver && o.Value == e.Value && o.Iterations == e.Iterations
		})
		if same >= 0 {
			c.note(d.kind.at, "for tare this is the same engine as on line %d, so it is skipped", lines[same])
			out[same].Threads = max(out[same].Threads, e.Threads)
			continue
		}
		e.Name = freeName(e.Name, out)
		out, lines = append(out, e), append(lines, d.kind.at.Line)
	}
	return out
}

func (c *converter) engine(d driver, t driverType) Engine {
	e := Engine{
		Name: t.engine, Driver: t.driver, Value: t.client, Iterations: d.iterations.value, Threads: d.threads.value,
	}
	switch {
	case d.client.set() && t.option == "":
		c.note(d.client.at, "%s is ignored: %s", yamldoc.Quote(d.client.text),
			"tare uses the usual socket of the daemon; an option of the engine sets another")
	case d.client.set():
		e.Value = address(t.option, d.client.text)
	}
	if e.Value != "" {
		e.Option = t.option
	}
	return e
}

// address writes a socket as the option wants it. Containerd's usual one is
// the same as none.
func address(option, client string) string {
	path := strings.TrimPrefix(client, "unix://")
	switch {
	case option == "endpoint" && strings.HasPrefix(path, "/"):
		return "unix://" + path
	case option == "address" && path == "/run/containerd/containerd.sock":
		return ""
	}
	return path
}

// freeName numbers the second engine of a name and those after it.
func freeName(name string, taken []Engine) string {
	for n := 1; ; n++ {
		free := name
		if n > 1 {
			free = fmt.Sprintf("%s-%d", name, n)
		}
		if !slices.ContainsFunc(taken, func(e Engine) bool { return e.Name == free }) {
			return free
		}
	}
}

// noteDriver notes differences of the type, and the keys that tare ignores.
func (c *converter) noteDriver(d driver, t driverType) {
	if t.note != "" {
		c.note(d.kind.at, "%s: %s", t.name, t.note)
	}
	if d.logDriver.set() && t.driver == "docker" {
		c.note(d.logDriver.at, "the log driver %s and its options are ignored: tare does not change how an engine logs. "+
			"To compare log drivers, "+
			"use two daemons", yamldoc.Quote(d.logDriver.text))
	}
	if d.cgroupPath.set() {
		c.note(d.cgroupPath.at, "cgroupPath %s is ignored: it told --overhead where to find the daemon, and tare needs no "+
			"path for that", yamldoc.Quote(d.cgroupPath.text))
	}
	reads := slices.ContainsFunc(c.file.commands, func(w word) bool { return command(w.text) == metrics })
	if at := d.streamStats.at; reads && at.Line > 0 {
		c.note(at, "streamStats belongs to metrics and is ignored like it")
	}
	if at := d.statsInterval.at; reads && at.Line > 0 {
		c.note(at, "statsIntervalSec belongs to metrics and is ignored like it")
	}
}

// noteFile notes the differences that every file has.
func (c *converter) noteFile() {
	if d := c.file.detached; d.at.Line > 0 && !d.value {
		c.note(d.at, "bucketbench ran every container detached, whatever this key says; tare does the same")
	}
	c.note(yamldoc.Place{}, "bucketbench ran each driver and number of threads once, one after the other; here all of "+
		"them run in every block, in random order, until the results are precise enough")
	c.note(yamldoc.Place{}, "do not compare results with those of bucketbench: it cut times to whole milliseconds, and "+
		"included the times of failed commands. "+
		"Here a failed operation is counted but never timed")
}

// The bounds of an experiment's matrix, with room for baselines and controls.
const (
	maxLevels = 100
	maxCells  = 1000
)

// concurrency is how many threads to compare under: 1 to the most, or where
// that is too many every double, and each driver's own number.
func (c *converter) concurrency(engines []Engine) []int {
	most := slices.MaxFunc(c.file.drivers, func(a, b driver) int { return a.threads.value - b.threads.value }).threads
	var out []int
	for n := 1; n <= most.value; n++ {
		out = append(out, n)
	}
	if len(out) > maxLevels || len(out)*(len(engines)+1) > maxCells {
		out = duplicateLevels(engines, most.value)
		c.note(most.at, "1 to %d threads are too many levels for one experiment: it has the powers of two, and the number "+
			"of each driver", most.value)
	}
	if most.value > 1 {
		c.note(most.at, "bucketbench until 2022, and later with --legacy, ran 1 to %d threads, one number after the "+
			"other; tare does the same. Since 2023 it runs only %d: "+
			"for that, remove the other levels of concurrency", most.value, most.value)
	}
	return out
}

func duplicateLevels(engines []Engine, most int) []int {
	var out []int
	for n := 1; n <= most; n *= 2 {
		out = append(out, n)
	}
	for _, e := range engines {
		out = append(out, e.Threads)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// grace is the longest that a driver gives between SIGTERM and SIGKILL, in
// whole seconds.
func (c *converter) grace() int {
	var most time.Duration
	for _, t := range c.used {
		most = max(most, t.grace)
	}
	return int(most / time.Second)
}

// limits sets times that a working engine never needs. Bucketbench has none.
func (c *converter) limits(e *Experiment) {
	one := 30 * time.Second
	if slices.Contains(e.Operations, "stop") {
		e.Grace = time.Duration(c.grace()) * time.Second
		one += e.Grace
	}
	if slices.Contains(e.Operations, "wait") {
		one = 5 * time.Minute
	}
	iterations := 0
	for _, engine := range e.Engines {
		iterations = max(iterations, engine.Iterations)
	}
	e.Operation = one
	e.Trial = max(10*time.Minute,
		time.Duration(iterations*len(e.Operations))*time.Second+time.Duration(iterations)*e.Grace)
}
