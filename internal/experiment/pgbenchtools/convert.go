package pgbenchtools

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tare-bench/tare/internal/experiment/yamldoc"
)

// The largest values that are taken over. The workload has no larger ones.
const (
	maxList    = 100
	maxScale   = 10_000
	maxClients = 1000
	maxRate    = 1_000_000
	maxTime    = 3600
	maxTimes   = 1000
)

// A converter makes an experiment of variables.
type converter struct {
	file     string
	values   map[string]variable
	notes    []yamldoc.Note
	problems []yamldoc.Problem
}

// note adds a difference about a line; 0 = about the file.
func (c *converter) note(line int, format string, args ...any) {
	c.notes = append(c.notes, yamldoc.Note{Line: line, Text: fmt.Sprintf(format, args...)})
}

// fail says what is wrong with a variable.
func (c *converter) fail(name, hint, format string, args ...any) {
	p := yamldoc.Problem{File: c.file, Message: fmt.Sprintf(format, args...), Hint: hint}
	if v := c.values[name]; v.line > 0 {
		p.Line, p.Source, p.Column = v.line, v.source, 1
		if i := strings.Index(v.source, name); i >= 0 {
			p.Column = utf8.RuneCountInString(v.source[:i]) + 1
		}
		p.Width = len(name)
	}
	c.problems = append(c.problems, p)
}

// text is the value of a variable, or what it has without a line.
func (c *converter) text(name, usual string) string {
	v, ok := c.values[name]
	switch {
	case !ok:
		return usual
	case v.computed:
		c.fail(name, "write the value itself", "%s is computed by the shell, and tare executes nothing of the file", name)
	}
	return v.value
}

// number reads one whole number.
func (c *converter) number(name, usual string, least, most int) int {
	text := c.text(name, usual)
	n, err := strconv.Atoi(text)
	if (err != nil || n < least || n > most) && !c.values[name].computed {
		c.fail(name, "", "%s is %s; it must be a whole number from %d to %d", name, yamldoc.Quote(text), least, most)
	}
	return n
}

// numbers reads a list of whole numbers, each once.
func (c *converter) numbers(name, usual string, most int) []int {
	var all []int
	words := strings.Fields(c.text(name, usual))
	if len(words) > maxList {
		c.fail(name, "", "%s has %d values; an experiment takes at most %d", name, len(words), maxList)
		return nil
	}
	for _, w := range words {
		n, err := strconv.Atoi(w)
		switch {
		case err != nil || n < 1 || n > most:
			c.fail(name, "", "%s has %s; each must be a whole number from 1 to %d", name, yamldoc.Quote(w), most)
			return nil
		case slices.Contains(all, n):
			c.note(c.values[name].line, "%s has %d twice; here it is one condition", name, n)
		default:
			all = append(all, n)
		}
	}
	return all
}

func (c *converter) experiment() Experiment {
	c.note(0, "pgbench-tools ran every scale, and below it every number of clients, one after the other on one server; "+
		"here all of them run in every block, in random order, each on a fresh copy of the tables")
	c.note(0, "pgbench-tools measured one server that was there; here engine: auto-2 compares a plain process with "+
		"containers. For one of them alone, use --engine")
	c.host()
	e := Experiment{
		Script: c.script(), Scales: c.numbers("SCALES", "1 10 100 1000", maxScale),
		Clients: c.numbers("SETCLIENTS", "1 2 4 8 16 32", maxClients), Blocks: c.number("SETTIMES", "3", 1, maxTimes),
		Time: c.runtime(), Rates: c.numbers("SETRATES", "", maxRate), ClientRates: c.numbers("CLIENTRATES", "", maxRate),
		Reset: c.reset(), Socket: c.text("SOCKETS", "0") == "1",
	}
	right := len(c.problems) == 0 // a list that could not be read is empty, too
	for _, l := range []struct {
		name   string
		values []int
	}{{"SCALES", e.Scales}, {"SETCLIENTS", e.Clients}} {
		if len(l.values) == 0 && right {
			c.fail(l.name, "write "+l.name+`="1 10 100"`, "%s is empty", l.name)
		}
	}
	if len(e.ClientRates) > 0 && len(e.Rates) > 0 {
		c.note(c.values["SETRATES"].line, "SETRATES is ignored, as in pgbench-tools: CLIENTRATES is set too")
		e.Rates = nil
	}
	for _, clients := range e.Clients {
		i := slices.IndexFunc(e.ClientRates, func(r int) bool { return clients*r > maxRate })
		if i >= 0 {
			c.fail("CLIENTRATES", "lower it, or take fewer clients", "CLIENTRATES has %d, which with %d clients is a rate of "+
				"%d; tare sends at most %d transactions per second", e.ClientRates[i], clients, clients*e.ClientRates[i], maxRate)
			break
		}
	}
	if e.Blocks < 6 {
		c.note(c.values["SETTIMES"].line, "SETTIMES=%d becomes %[1]d blocks. Intervals need 6 blocks, and verdicts more: "+
			"'tare plan' says how many", e.Blocks)
	}
	tooSmall := func(s int) bool { return s < slices.Max(append(e.Clients, 0)) }
	if slices.ContainsFunc(e.Scales, tooSmall) && e.Script == tpcb {
		c.note(c.values["SCALES"].line, "with fewer branches (the scale) than clients, transactions wait for one another's "+
			"rows, and their times show mostly that")
	}
	c.noteRest(e)
	return e
}

// tpcb is the script that updates branches.
const tpcb = "tpcb-like"

// script is the script by tare's name.
func (c *converter) script() string {
	name := c.text("SCRIPT", "select")
	switch name {
	case "select", ":-S":
		return "select-only"
	case "tpc-b":
		return tpcb
	case "nobranch", ":-N":
		return "simple-update"
	case "insert", "update":
		return name
	}
	if !c.values["SCRIPT"].computed {
		c.fail("SCRIPT", "tare has select, tpc-b, nobranch, insert and update",
			"the script %s has no counterpart among the loads of tare", yamldoc.Quote(name))
	}
	return ""
}

// host refuses a server that tare would not start itself.
func (c *converter) host() {
	host := c.values["TESTHOST"]
	isHere := slices.Contains([]string{"", "localhost", "127.0.0.1", "::1"}, host.value) || path.IsAbs(host.value)
	const reason = "tare measures servers that it starts itself: only so are the settings, the data and the state " +
		"the same in each cell"
	switch {
	case host.computed:
		c.fail("TESTHOST", `remove the line, or write TESTHOST=localhost`, "TESTHOST is computed by the shell; "+reason)
	case !isHere:
		c.fail("TESTHOST", "remove the line, and run tare on that machine; 'tare run --remote' has the clients here",
			"TESTHOST is the server %s; "+reason, yamldoc.Quote(host.value))
	}
	switch v := c.values["TESTPORT"]; {
	case v.computed, v.value != "" && v.value != "5432":
		c.fail("TESTPORT", "remove the line", "TESTPORT is the port of a server that is there; "+reason)
	}
	if v := c.values["TESTDB"]; strings.Contains(v.value, "://") {
		c.fail("TESTDB", "remove the line", "TESTDB is the address of a server; "+reason)
	}
}

func (c *converter) runtime() time.Duration {
	if v, ok := c.values["RUNTIME"]; ok && !v.given() {
		c.fail("RUNTIME", "write RUNTIME=60", "the length of a test is a number of transactions, TOTTRANS; "+
			"tare measures for a time")
		return 0
	}
	return time.Duration(c.number("RUNTIME", "60", 1, maxTime)) * time.Second
}

// reset is the command that runs before each test.
func (c *converter) reset() []string {
	text := c.text("TESTRESET", "")
	argv := strings.Fields(text)
	if len(argv) == 0 {
		return nil
	}
	isHidden := func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) && r != '\t' }
	switch {
	case strings.ContainsFunc(text, isHidden):
		c.fail("TESTRESET", "rename the program, or write a script that calls it",
			"TESTRESET is %s, which has a character that cannot be shown", yamldoc.Quote(text))
	case !path.IsAbs(argv[0]):
		c.fail("TESTRESET", "write its whole path", "TESTRESET is %s, which is not an absolute path", yamldoc.Quote(argv[0]))
	}
	c.note(c.values["TESTRESET"].line, "pgbench-tools gave TESTRESET the number of the server's version as an argument, "+
		"after its tables were cleaned up; here it has only its own arguments, and runs before each trial, "+
		"when no server runs")
	return argv
}

// noteRest notes variables that have another meaning here, or none.
func (c *converter) noteRest(e Experiment) {
	at := func(name string) int { return c.values[name].line }
	is := func(name, usual string) bool { v := c.values[name]; return v.given() && v.value != usual }
	if !e.Socket {
		c.note(at("SOCKETS"), "pgbench-tools connected by TCP to localhost, and with TLS where the server offers it, as "+
			"Debian's packages do; here it is TCP without TLS, for ssl: yes see 'tare params postgres'")
	}
	if !is("PREPARED", "0") {
		c.note(at("PREPARED"), "pgbench sent the text of each statement; tare prepares statements once, as PREPARED=1 does, "+
			"which makes each transaction cheaper")
	}
	if is("TRIM", "0") {
		c.note(at("TRIM"), "TRIM is ignored: tare warms up before it measures, and cuts nothing off")
	}
	if is("FILLFACTOR", "100") {
		c.note(at("FILLFACTOR"), "FILLFACTOR is ignored: tables are made with 100")
	}
	if is("SKIPINIT", "0") {
		c.note(at("SKIPINIT"), "SKIPINIT is ignored: tables are made once, and each trial has a copy. "+
			"For a cold cache, set params.cache: cold")
	}
	if is("MULTI", "0") {
		c.note(at("MULTI"), "MULTI is ignored: no script here uses it")
	}
}
