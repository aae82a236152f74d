package bucketbench

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/experiment/yamldoc"
)

// The commands.
const (
	Run    = "run"
	Pause  = "pause"
	Resume = "resume"
	Stop   = "stop"
	Delete = "delete"
	Wait   = "wait"
)

// metrics is a command too, which neither bucketbench nor tare times.
const metrics = "metrics"

// command returns what a word of the file stands for; empty where bucketbench
// knows no such word. Upper and lower case are the same.
func command(word string) string {
	switch strings.ToLower(word) {
	case "run", "start":
		return Run
	case "pause":
		return Pause
	case "unpause", "resume":
		return Resume
	case "stop", "kill":
		return Stop
	case "remove", "erase", "delete":
		return Delete
	case "wait":
		return Wait
	case "metrics", "stats":
		return metrics
	}
	return ""
}

// A state is what a container is in, between two commands.
type state string

const (
	absent  state = "does not exist yet"
	running state = "runs"
	paused  state = "is paused"
	exited  state = "has exited"
	removed state = "is removed"
)

// A transition is what a command does to a container.
type transition struct {
	from       []state
	to         state
	operations []string // of tare
}

func transitions() map[string]transition {
	run := []state{running}
	return map[string]transition{
		Run:    {[]state{absent}, running, []string{"create", "start"}},
		Pause:  {run, paused, []string{"pause"}},
		Resume: {[]state{paused}, running, []string{"resume"}},
		Stop:   {run, exited, []string{"stop"}},
		Wait:   {run, exited, []string{"wait"}},
		Delete: {[]state{running, paused, exited}, removed, []string{"remove"}},
	}
}

// operations turns the commands into a sequence of tare's operations, and notes the
// differences. It refuses what could only have failed in bucketbench.
func (c *converter) operations() []string {
	var out []string
	all, now := transitions(), absent
	for _, w := range c.file.commands {
		name := command(w.text)
		m, moves := all[name]
		switch {
		case name == "":
			c.unknownCommand(w)
		case name == metrics:
			c.noteMetrics(w)
		case now == exited && (name == Stop || name == Wait):
			c.note(w.at, "%s of a container that has exited is skipped: bucketbench timed it, although there is nothing to do",
				yamldoc.Quote(w.text))
		case moves && !slices.Contains(m.from, now):
			c.Fail(w.at, fmt.Sprintf("%s cannot come here: the container %s", yamldoc.Quote(w.text), now), wanted(name, now))
			return nil
		default:
			c.noteCommand(w, name, now)
			out, now = append(out, m.operations...), m.to
		}
	}
	return c.finish(out, now)
}

// wanted says what could stand before a command.
func wanted(name string, now state) string {
	switch {
	case name == Run:
		return "run each container only once"
	case now == absent:
		return "begin with run"
	case now == paused:
		return "write resume before it"
	case now == running:
		return "write pause before it"
	default:
		return "leave it out"
	}
}

// unknownCommand does as bucketbench does.
func (c *converter) unknownCommand(w word) {
	hint := ""
	if strings.EqualFold(w.text, "rm") {
		hint = ": did you mean remove?"
	}
	c.note(w.at, "bucketbench has no command %s and skips it; tare does the same%s", yamldoc.Quote(w.text), hint)
}

// finish ends a sequence with remove, because every sequence of tare's ends so.
func (c *converter) finish(operations []string, now state) []string {
	last := c.file.commands[len(c.file.commands)-1].at
	switch {
	case now == absent:
		c.Fail(last, "no command runs a container", "begin with run")
	case now != removed:
		c.note(last, "bucketbench removed the containers only after the last one. Here each container is removed before "+
			"the next one is created, "+
			"and the rate includes that")
		operations = append(operations, "remove")
	}
	if !c.stopsGently() {
		for i, o := range operations {
			if o == "stop" {
				operations[i] = "kill"
			}
		}
	}
	return operations
}

// noteCommand notes how a command differs from bucketbench's.
func (c *converter) noteCommand(w word, name string, now state) {
	switch name {
	case Stop:
		c.noteStop(w)
	case Pause:
		c.notePause(w)
	case Wait:
		c.noteWait(w)
	case Delete:
		if refused := c.types(func(t driverType) bool { return t.removeNeedsExit }); now != exited && refused != "" {
			c.note(w.at, "%s refused to remove a container that had not exited, and bucketbench counted the time of the "+
				"refusal; here remove kills it first", refused)
		}
	}
}

// stopsGently reports whether stop sends SIGTERM first, in all cells alike. It does not if
// some driver sent SIGKILL: then an ignored SIGTERM would measure the grace period. CRI
// has only stop.
func (c *converter) stopsGently() bool {
	return c.types(func(t driverType) bool { return t.stopKills }) == "" ||
		c.types(func(t driverType) bool { return t.name == "CRI" }) != ""
}

func (c *converter) noteStop(w word) {
	var was []string
	for _, t := range c.used {
		if text := "for " + t.name + ", " + t.stop; !slices.Contains(was, text) {
			was = append(was, text)
		}
	}
	is := "kill for every engine: SIGKILL, timed until the exit is known"
	if c.stopsGently() {
		is = fmt.Sprintf("stop for every engine: SIGTERM, SIGKILL after %d s, timed until the exit is known", c.grace())
	}
	c.note(w.at, "in bucketbench stop was, %s. Here it is %s", strings.Join(was, "; "), is)
	c.note(w.at, "the program must run until stop. If it had ended before, bucketbench counted the few milliseconds of "+
		"a stop that failed or "+
		"did nothing; here such a stop is not timed and not a failure, and the report mentions it. For a program that "+
		"ends by itself, write wait in place of stop, "+
		"or set argv, such as [sleep, \"3600\"]")
	if !c.stopsGently() {
		return
	}
	hint := "To end it at once, use the operation kill"
	if c.types(func(t driverType) bool { return t.name == "CRI" }) != "" {
		hint = "With CRI there is no other way to end it"
	}
	c.note(w.at, "a program that SIGTERM does not end, such as sleep or a shell, took the whole grace period in "+
		"bucketbench; here that is a failure. %s", hint)
}

func (c *converter) notePause(w word) {
	if c.types(func(t driverType) bool { return t.name == "CRI" }) != "" {
		c.note(w.at, "CRI cannot pause: bucketbench counted 0 ms; here its cells are not supported")
	}
	if silent := c.types(func(t driverType) bool { return t.ignoresPauseError }); silent != "" {
		c.note(w.at, "with %s, bucketbench counted a failed pause as 0 ms; here it is an error", silent)
	}
}

func (c *converter) noteWait(w word) {
	if not := c.types(func(t driverType) bool { return !t.hasWait }); not != "" {
		c.note(w.at, "bucketbench could not wait with %s, and counted 0 ms and an error; here every engine waits", not)
	}
	c.note(w.at, "bucketbench accepted any exit status of the program; here only 0 is a success")
}

func (c *converter) noteMetrics(w word) {
	c.note(w.at, "%s is left out: it had the engine's statistics read beside the other commands, as a load, "+
		"and was never timed; tare has no such operation", yamldoc.Quote(w.text))
}
