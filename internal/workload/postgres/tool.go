package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/foreign"
	"github.com/tare-bench/tare/internal/foreign/pgbench"
	"github.com/tare-bench/tare/internal/kernel/affinity"
	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/load/client"
	pgload "github.com/tare-bench/tare/internal/load/postgres"
	"github.com/tare-bench/tare/internal/supervise"
	"github.com/tare-bench/tare/internal/supervise/capacity"
)

// toolName is the value of option tool.
const toolName = "pgbench"

func tool() supervise.Program {
	return supervise.Program{Name: toolName, Package: "PostgreSQL's client programs"}
}

// The bounds of what pgbench is asked to do: its log has a line for each transaction.
const (
	maxToolTime = 10 * time.Minute
	maxScript   = 1 << 20 // bytes
)

// checkTool returns what is wrong with the options of pgbench, and those that need it.
func (w workload) checkTool(o options, params map[string]string) error {
	isFile := filepath.IsAbs(o.script)
	if !o.tool {
		if isFile {
			return errors.New("only pgbench knows its script language: set tool=pgbench, or script to one that tare has")
		}
		return nil
	}
	switch i := slices.IndexFunc(o.parts, func(p part) bool { return p.length() > maxToolTime }); {
	case capacity.IsShare(o.rate):
		return errors.New("only tare's own clients can measure the capacity of the cells: leave tool out, or give a " +
			"rate in transactions per second")
	case i >= 0:
		return fmt.Errorf("pgbench writes a line for each transaction: leave tool out, or measure part %s for at most %v",
			o.parts[i].name, maxToolTime)
	case o.script == pgload.Insert || o.script == pgload.Update:
		return fmt.Errorf("pgbench has no script %s: leave tool out, or set script to the path of a file", o.script)
	}
	return tool().UnknownOptions(w.Params(), params, "sweep")
}

// checkScript returns why a file with a script cannot be used on this host.
func checkScript(path string) error {
	if !filepath.IsAbs(path) {
		return nil
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return fmt.Errorf("option script: %w", err)
	case !info.Mode().IsRegular() || info.Size() > maxScript:
		return fmt.Errorf("option script: %.200q is not a file of at most %d bytes", path, maxScript)
	}
	return nil
}

// validScript accepts the name of a script, or the path of a file.
func validScript(s string) error {
	if filepath.IsAbs(s) && len(s) < 4096 {
		return nil
	}
	if err := bench.OneOf(scripts()...)(s); err != nil {
		return fmt.Errorf("%w, or with tool=pgbench the absolute path of a file", err)
	}
	return nil
}

// findTool finds pgbench on this host, in the newest version.
func (w workload) findTool(ctx context.Context, t bench.Task) (string, error) {
	img, err := w.images(t.Dir).Resolve(ctx, "host:"+toolName)
	switch {
	case ctx.Err() != nil:
		return "", err
	case err != nil:
		return "", fmt.Errorf("%w: program %s is not here: install %s, or leave option tool out (%w)",
			bench.ErrUnsupported, toolName, tool().Package, err)
	}
	return img.Packed().Program, nil
}

// runTool has pgbench do the work of a part, as a plain process of this host, and reads its log.
func (t *trial) runTool(ctx context.Context, p part) (report *load.Report, err error) {
	dir, err := os.MkdirTemp(t.task.Dir, "pgbench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r := toolRun{part: p, prefix: filepath.Join(dir, "log")}
	if r.warmup, err = time.ParseDuration(t.task.Params["warmup"]); err != nil {
		return nil, err
	}
	if err := t.attestTool(p); err != nil {
		return nil, err
	}
	ssl := map[bool]string{true: "require", false: "disable"}[t.options.tls]
	l := supervise.Launch{
		Launch: agent.Launch{CPUs: affinity.Format(t.cpus.client), Files: openFiles}, Agent: t.template.agent,
		Program: append([]string{t.toolPath}, t.toolArguments(r)...),
	}
	spec := l.Spec(t.client, bench.Spec{
		Network: "host", Env: []string{pgload.PasswordVariable + "=" + t.template.password, "PGSSLMODE=" + ssl},
	})
	running, err := supervise.Start(ctx, t.client, spec, t.m, "client")
	if err != nil {
		return nil, err
	}
	defer t.m.Cleanup(running.Remove)
	output, err := running.Output(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", toolName, err)
	}
	if report, err = r.read(output); err != nil {
		return nil, err
	}
	if busy, known := running.Count(ctx).Busy(); known {
		report.Values[clientCPU] = busy / float64(t.toolThreads(p))
	}
	if version := report.Facts["version"]; version != "" { // before 14 it does not tell
		t.applied.Facts[toolName+" version"] = version
	}
	return report, nil
}

// attestTool compares pgbench and the user's script with those of the trials before: somebody may change the files
// during a run.
func (t *trial) attestTool(p part) error {
	files := map[string]string{toolName: t.toolPath}
	if filepath.IsAbs(p.script) {
		files["script"] = p.script
	}
	for name, file := range files {
		digest, err := supervise.FileDigest(file)
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		if err := t.compare("tool "+file, nil, facts{name: digest}); err != nil {
			return fmt.Errorf("%w: %s has changed during the run: run again", err, file)
		}
		t.applied.Facts[name] = digest
	}
	return nil
}

// toolThreads is how many threads pgbench has: one for each of its CPUs.
func (t *trial) toolThreads(p part) int { return min(p.clients, max(1, len(t.cpus.client))) }

// toolArguments are the arguments of pgbench.
func (t *trial) toolArguments(r toolRun) []string {
	host := t.fixture.socket
	if host == "" {
		host = t.at.Addr().String()
	}
	port := int(t.fixture.port)
	if t.at.IsValid() {
		port = int(t.at.Port())
	}
	args := []string{
		"-h", host, "-p", strconv.Itoa(port), "-U", userName, "-n", "-M", "prepared", "-c", strconv.Itoa(r.part.clients),
		"-j", strconv.Itoa(t.toolThreads(r.part)), "-T", strconv.Itoa(r.seconds()),
		"-l", "--log-prefix=" + r.prefix,
		"--random-seed=" + strconv.FormatUint(uint64(uint32(r.part.seed)), 10), // old versions take 32 bits
	}
	if filepath.IsAbs(r.part.script) {
		args = append(args, "-f", r.part.script, "-s", strconv.Itoa(t.options.scale))
	} else {
		args = append(args, "-b", r.part.script)
	}
	if r.part.rate != "0" {
		args = append(args, "-R", r.part.rate)
	}
	if t.task.Params["connect"] == connectEach {
		args = append(args, "-C")
	}
	return append(args, userName)
}

// A toolRun is one run of pgbench.
type toolRun struct {
	part   part
	warmup time.Duration
	prefix string // of the files of its log
}

// seconds is for how long pgbench runs, in whole seconds: at least one second longer than what is measured. The
// warm-up begins only when a first transaction has ended, and the end of the time must not come after that of
// pgbench.
func (r toolRun) seconds() int { return int(math.Ceil((r.warmup + r.part.length()).Seconds())) + 1 }

// read makes a report of what pgbench printed and of its log. A transaction counts by when it ended: after
// the warm-up, which begins when the first one ends, and within the time.
func (r toolRun) read(output []byte) (*load.Report, error) {
	file := foreign.NewFile(toolName, string(output))
	results, err := pgbench.ReadOutputs(&file)
	switch {
	case err != nil:
		return nil, err
	case len(results) != 1:
		return nil, tool().UnknownOutput("result", output)
	case results[0].Aborted != "":
		return nil, fmt.Errorf("%s: %s", toolName, results[0].Aborted)
	}
	all := pgbench.NewLog()
	if err := r.readLog(all); err != nil {
		return nil, err
	}
	counted := pgbench.NewLog()
	counted.From = all.First.Add(r.warmup)
	counted.To = counted.From.Add(r.part.length())
	if err := r.readLog(counted); err != nil {
		return nil, err
	}
	if counted.Transactions == 0 {
		return nil, fmt.Errorf("%s: no transaction ended well within the time: choose a longer one", toolName)
	}
	return r.report(counted, results[0])
}

// readLog reads all files of the log: each thread writes one.
func (r toolRun) readLog(l *pgbench.Log) error {
	names, err := filepath.Glob(r.prefix + ".*")
	if err != nil {
		return err
	}
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		err = l.Read(f)
		_ = f.Close() // it was only read
		if err != nil {
			return fmt.Errorf("%s: its log: %w", toolName, err)
		}
	}
	return nil
}

// report reports the transactions that count; all is what pgbench printed of all of them.
func (r toolRun) report(l *pgbench.Log, all *pgbench.Output) (*load.Report, error) {
	out := load.NewReport(toolName)
	out.Facts["version"] = all.Version
	rate := float64(l.Transactions) / r.part.length().Seconds()
	out.Values[Rate], out.Values[transactions] = rate, float64(l.Transactions)
	out.Values["committed"], out.Values["refused"] = float64(all.Transactions), float64(all.Failed)
	out.Values[failed] = float64(l.Failed)
	if l.Failed > 0 {
		out.Notes = append(out.Notes, pgload.NoteFailed)
	}
	offer, _ := strconv.ParseFloat(cmp.Or(r.part.rate, "0"), 64) // it was validated
	// Transactions are due at random times, so the standard deviation of their number is its root.
	due := offer * r.part.length().Seconds()
	switch {
	case offer == 0:
		out.Notes = append(out.Notes, pgload.NoteClosedLoop)
	case float64(l.Transactions) < (1-client.MaxMissed)*due-3*math.Sqrt(due):
		out.Notes = append(out.Notes, pgload.NoteRateMissed)
	}
	if offer > 0 {
		out.Values[offered] = offer
	}
	return out, pgload.Spread(out, "time", l.Times)
}
