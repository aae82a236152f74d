package postgres

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	load "github.com/tare-bench/tare/internal/load/postgres"
	"github.com/tare-bench/tare/internal/supervise/capacity"
)

// The bounds of options.
const (
	maxScale   = 10_000
	maxClients = 1000
	maxTime    = time.Hour
	leastTime  = 10 * time.Millisecond
	maxWarmup  = time.Minute
	maxRate    = 1_000_000
	maxBuffers = 1 << 27 // pages
	minBuffers = 16
)

func (workload) Params() []bench.Param {
	onOff := bench.OneOf("on", "off")
	return []bench.Param{
		{Name: "parts", Default: strings.Join(usualParts(), ","), Valid: validParts, Doc: "loads on the server, one after " +
			"the other: read1 and write1 have one client, read and write have as many as clients says, load runs script"},
		{Name: "scale", Default: "10", Valid: bench.Between(1, maxScale), Doc: "size of the tables, as pgbench has it: " +
			"100,000 accounts each; some 15 MB"},
		{Name: "clients", Default: "8", Valid: bench.Between(1, maxClients), Doc: "number of connections of read, write " +
			"and load; each has one transaction at a time"},
		{Name: "sweep", Default: "", Valid: validSweep, Doc: "numbers of connections of read, write and load in place of " +
			"clients, one after the other on one server in an order drawn for each block, each for its time: some of 1, 2, " +
			"4, 8, 16, 32, 64; for what writes, the tables grow from step to step"},
		{Name: "script", Default: defaultScript, Valid: validScript, Doc: "transaction of part load, as pgbench has it: " +
			strings.Join(scripts(), ", ") + "; insert and update are those of pgbench-tools: a row of history, or the " +
			"balance of an account; with tool=pgbench also the absolute path of a script in pgbench's language"},
		{Name: "tool", Default: "", Valid: bench.OneOf("", toolName), Doc: "pgbench: use the host's pgbench in place of " +
			"the built-in clients"},
		{Name: "rate", Default: "0", Valid: validRate, Doc: "transactions per second of part load, each sent when it is " +
			"due and timed from then (open loop), or a share of the capacity of the slowest compared cell, such as 70%; " +
			"0: each client sends the next one after the answer (closed loop)"},
		{Name: "connect", Default: connectOnce, Valid: bench.OneOf(connectOnce, connectEach), Doc: "once: connections " +
			"stay open; each: a new connection for each transaction"},
		{Name: "time", Default: "1s", Valid: bench.DurationBetween(leastTime, maxTime), Doc: "measured time of " +
			"each part that only reads, and of load"},
		{Name: "write_time", Default: "1750ms", Valid: bench.DurationBetween(leastTime, maxTime), Doc: "measured " +
			"time of write1 and write"},
		{Name: "warmup", Default: "250ms", Valid: bench.DurationBetween(0, maxWarmup), Doc: "time for which each part runs " +
			"before any transaction counts"},
		{Name: "entry", Default: entryTare, Valid: bench.OneOf(entryTare, entryImage), Doc: "what starts the server; tare: " +
			"its launcher, on a copy of one cluster; image: the image's own entry point, which makes a cluster in each trial"},
		{Name: "fsync", Default: "on", Valid: onOff, Doc: "off: the server does not force its writes to the disk"},
		{Name: "commit", Default: "on", Valid: onOff, Doc: "synchronous_commit; off: a commit does not wait for the disk"},
		{Name: "full_page_writes", Default: "on", Valid: onOff, Doc: "off: no whole pages in the WAL after a checkpoint"},
		{Name: "ssl", Default: "no", Valid: bench.OneOf("no", "yes"), Doc: "yes: clients use TLS, with a certificate that " +
			"is made for the run and not verified; not on a Unix socket"},
		{Name: "shared_buffers", Default: "256MB", Valid: validBuffers, Doc: "memory of the server for pages of tables"},
		{Name: "set", Default: "", Valid: validSettings, Doc: "other settings of the server, NAME=VALUE, separated by " +
			"commas, such as work_mem=8MB,jit=on"},
		{Name: "settings", Default: steady, Valid: bench.OneOf(steady, ofServer), Doc: "steady: no checkpoint by time, no " +
			"autovacuum and no JIT, so that trials resemble each other; server: PostgreSQL's defaults as initdb writes them " +
			"(with entry=image those of the image), with timed checkpoints and autovacuum; give time several checkpoints"},
		{Name: "cache", Default: warm, Valid: bench.OneOf(warm, cold), Doc: "warm: the accounts are read before the first " +
			"part; cold: the copy is dropped from the page cache before the server starts"},
		{Name: "port", Default: "0", Valid: bench.Between(0, 65535), Doc: "port of the server; 0: 5432 in a network of its " +
			"own, otherwise a free port"},
		{Name: "pin", Default: "yes", Valid: bench.OneOf("yes", "no"), Doc: "yes: clients and server run on separate CPUs " +
			"if there are two"},
	}
}

// The words of options.
const (
	connectOnce = "once"
	connectEach = "each"
	steady      = "steady"
	ofServer    = "server"
	warm        = "warm"
	cold        = "cold"
)

// options are the options of a cell.
type options struct {
	parts    []part
	scale    int
	script   string
	rate     string
	server   map[string]string // those on which the server depends, by name
	set      []setting
	settings string
	entry    bool // the image's own entry point starts the server
	cold     bool
	tls      bool
	tool     bool // pgbench in place of tare's own clients
	port     uint16
	pin      bool
	turns    bool // clients take turns; their stretch has connections of its own, beside those that stay
}

// parseOptions reads options, each of which is valid.
func parseOptions(params map[string]string) (options, error) {
	scale, err1 := strconv.Atoi(params["scale"])
	clients, err2 := strconv.Atoi(params["clients"])
	port, err3 := strconv.ParseUint(params["port"], 10, 16)
	set, err4 := parseSettings(params["set"])
	sweep, err5 := parseSweep(params["sweep"])
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return options{}, err
	}
	o := options{
		scale: scale, script: params["script"], rate: params["rate"], set: set, settings: params["settings"],
		entry: params["entry"] == entryImage, cold: params["cache"] == cold, tls: params["ssl"] == "yes",
		tool: params["tool"] == toolName, port: uint16(port), pin: params["pin"] == "yes", server: map[string]string{},
	}
	for _, name := range []string{"fsync", "commit", "full_page_writes", "ssl", "shared_buffers"} {
		o.server[name] = params[name]
	}
	for name := range strings.SplitSeq(params["parts"], ",") {
		p := partNamed(name, clients, params)
		if name != partRead1 && name != partWrite1 {
			p.sweep = sweep
		}
		o.parts = append(o.parts, p)
	}
	return o, nil
}

// A part is one load of a trial.
type part struct {
	name    string // begins the names of its metrics
	script  string
	clients int
	sweep   []int  // numbers of clients, one after the other; nil = clients
	time    string // a duration, of each number of clients
	rate    string // transactions per second, or a share of the capacity; "0" = closed loop
	seed    uint64 // of the random keys: see partSeed
}

// The names of parts.
const (
	partRead1  = "read1"
	partRead   = "read"
	partWrite1 = "write1"
	partWrite  = "write"
	partLoad   = "load"
)

// The scripts of parts, which are pgbench's and pgbench-tools'.
const (
	scriptSelect  = load.SelectOnly
	scriptTPCB    = load.TPCBLike
	defaultScript = scriptSelect
)

func scripts() []string {
	return []string{scriptSelect, scriptTPCB, load.SimpleUpdate, load.Insert, load.Update}
}

func usualParts() []string { return []string{partRead1, partRead, partWrite1, partWrite} }

func allParts() []string { return append(usualParts(), partLoad) }

// partNamed returns a part with the options of a cell.
func partNamed(name string, clients int, params map[string]string) part {
	p := part{name: name, script: scriptSelect, clients: clients, time: params["time"], rate: "0"}
	switch name {
	case partRead1:
		p.clients = 1
	case partWrite1:
		p.clients, p.script, p.time = 1, scriptTPCB, params["write_time"]
	case partWrite:
		p.script, p.time = scriptTPCB, params["write_time"]
	case partLoad:
		p.script, p.rate = cmp.Or(params["script"], scriptSelect), cmp.Or(params["rate"], "0")
	}
	return p
}

// writes reports whether the transactions of the part change rows.
func (p part) writes() bool { return p.script != scriptSelect }

// length is for how long the part is measured.
func (p part) length() time.Duration {
	d, _ := time.ParseDuration(p.time) // it was validated
	return d * time.Duration(max(1, len(p.sweep)))
}

// most is the largest number of clients at one time.
func (p part) most() int {
	if len(p.sweep) > 0 {
		return slices.Max(p.sweep)
	}
	return p.clients
}

// connections is the largest number of connections of clients at one time.
func (o options) connections() int {
	most := 0
	for _, p := range o.parts {
		most = max(most, p.most())
	}
	if o.turns {
		most *= 2
	}
	return most
}

// expectedWAL estimates what the parts that write leave behind, in bytes. A checkpoint frees the WAL before it, and comes
// when there is as much as max_wal_size: until it has ended there can be half as much again.
func (o options) expectedWAL() int64 {
	const eachSecond, steadyMost, serverMost = 64 << 20, 64 << 30, 1 << 30
	var all int64
	for _, p := range o.parts {
		if p.writes() {
			all += int64(p.length().Seconds() * eachSecond)
		}
	}
	most := int64(steadyMost)
	if o.settings == ofServer {
		most = serverMost
	}
	if i := slices.IndexFunc(o.set, func(s setting) bool { return s.name == "max_wal_size" }); i >= 0 {
		if pages, ok := bufferPages(o.set[i].value); ok {
			most = pages * pageSize
		}
	}
	return min(all, most+most/2)
}

// stopTime is how long a server may take to stop: then it writes what is in its memory, and syncs all that was written.
func (o options) stopTime() time.Duration {
	const eachSecond, most = 32 << 20, 10 * time.Minute
	pages, _ := bufferPages(o.server["shared_buffers"]) // it was validated
	return min(stopTime+time.Duration((pages*pageSize+o.expectedWAL())/eachSecond)*time.Second, most)
}

// walSegment is the size of a file of the WAL, in bytes.
const walSegment = 16 << 20

// readySegments is how many WAL segments are there for later use when a trial begins, since a new one is written
// twice: for twice what is expected, and at most 8. Each trial copies them.
func (o options) readySegments() int { return int(min(8, (2*o.expectedWAL()+walSegment-1)/walSegment)) }

// writes reports whether any part changes rows.
func (o options) writes() bool { return slices.ContainsFunc(o.parts, part.writes) }

func validParts(s string) error {
	seen := map[string]bool{}
	for i, name := range strings.Split(s, ",") {
		if err := bench.OneOf(allParts()...)(name); err != nil {
			return &bench.ListItemError{Word: i, Err: err}
		}
		if seen[name] {
			return &bench.ListItemError{Word: i, Err: fmt.Errorf("%s is there twice", name)}
		}
		seen[name] = true
	}
	return nil
}

// sweepable are the numbers of clients that a sweep can have.
func sweepable() []int { return []int{1, 2, 4, 8, 16, 32, 64} }

// parseSweep reads numbers of clients, separated by commas.
func parseSweep(s string) (all []int, err error) {
	if s == "" {
		return nil, nil
	}
	for i, word := range strings.Split(s, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || !slices.Contains(sweepable(), n) {
			return nil, &bench.ListItemError{Word: i, Err: fmt.Errorf("%.20q is not one of 1, 2, 4, 8, 16, 32, 64", word)}
		}
		if len(all) > 0 && n <= slices.Max(all) {
			return nil, &bench.ListItemError{Word: i, Err: fmt.Errorf("%d does not follow %d: write them in order", n, all[i-1])}
		}
		all = append(all, n)
	}
	return all, nil
}

func validSweep(s string) error {
	_, err := parseSweep(s)
	return err
}

func validRate(s string) error { return capacity.ValidRate(bench.Between(0, maxRate))(s) }

func validBuffers(s string) error {
	if n, ok := bufferPages(s); !ok || n < minBuffers || n > maxBuffers {
		return fmt.Errorf("%.40q is not a size of at least 128kB as PostgreSQL writes it, such as 256MB", s)
	}
	return nil
}

// bufferPages reads a size of shared_buffers, in pages of 8 kB. A kB has 1024 bytes, as PostgreSQL
// counts.
func bufferPages(s string) (pages int64, ok bool) {
	for _, u := range []struct {
		name  string
		bytes int64
	}{{"kB", 1 << 10}, {"MB", 1 << 20}, {"GB", 1 << 30}} {
		number, is := strings.CutSuffix(s, u.name)
		if n, err := strconv.ParseInt(number, 10, 32); is && err == nil && n > 0 {
			return n * u.bytes / pageSize, true
		}
	}
	return 0, false
}

const pageSize = 8 << 10

// A setting is one of the server's configuration.
type setting struct{ name, value string }

func (s setting) String() string { return s.name + "=" + s.value }

var settingName = regexp.MustCompile(`^[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)?$`)

// parseSettings reads NAME=VALUE, separated by commas.
func parseSettings(s string) (all []setting, err error) {
	if s == "" {
		return nil, nil
	}
	for i, one := range strings.Split(s, ",") {
		name, value, ok := strings.Cut(one, "=")
		switch {
		case !ok || !settingName.MatchString(name) || len(value) > 200 || strings.ContainsAny(value, "\x00\n"):
			err = fmt.Errorf("%.60q is not a setting, such as work_mem=8MB", one)
		case slices.Contains(ownSettings(), name):
			err = fmt.Errorf("%s is not for option set: the trial depends on what tare has there", name)
		case slices.Contains([]string{"fsync", "full_page_writes", "shared_buffers", "ssl"}, name):
			err = fmt.Errorf("%s is an option of its own: write %s=%s without set", name, name, value)
		case name == "synchronous_commit":
			err = fmt.Errorf("%s is option commit", name)
		case slices.ContainsFunc(all, func(o setting) bool { return o.name == name }):
			err = fmt.Errorf("%s is there twice", name)
		}
		if err != nil {
			return nil, &bench.ListItemError{Word: i, Err: err}
		}
		all = append(all, setting{name, value})
	}
	return all, nil
}

func validSettings(s string) error {
	_, err := parseSettings(s)
	return err
}
