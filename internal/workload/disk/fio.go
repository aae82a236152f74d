package disk

import (
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/load/disk"
	"github.com/tare-bench/tare/internal/supervise"
)

// runFIO is a trial with the host's fio. A container with tare's own load runs first, in
// the same kind of directory. It finds out how much room there is and what the file
// system and the kernel allow, so that fio is only asked for what is possible.
func runFIO(ctx context.Context, t bench.Task, m bench.Meter) error {
	facts, err := check(ctx, t, m)
	if err != nil {
		return err
	}
	if err := tryFIO(ctx, t, m, facts); err != nil {
		return err
	}
	spec := specWithData(t)
	dir, err := supervise.DataDir(t.Engine, spec)
	if err != nil {
		return err
	}
	plan, err := planOf(t, dir)
	if err != nil {
		return err
	}
	spec.Image, spec.Argv = "host:"+fio.Name, fioArgv(plan, facts)
	if _, err := m.Step("prepare", func() error { return t.Engine.Prepare(ctx, spec) }); err != nil {
		return err
	}
	p, err := supervise.Start(ctx, t.Engine, spec, m, fio.Name)
	if err != nil {
		return err
	}
	defer m.Cleanup(p.Remove)
	began := p.Applied(ctx, m) // while fio still fills its file
	text, err := p.Output(ctx)
	if err != nil {
		return withOutput(text, err)
	}
	report, err := parseFIO(text, plan)
	if err != nil {
		return err
	}
	supervise.RecordReport(m, report)
	supervise.Record(m, p.Count(ctx))
	note(m, t, facts)
	got := p.Applied(ctx, m)
	got.Data = moreSpecific(began.Data, got.Data)
	spec.Argv, got.Argv = supervise.ReplaceDir(spec.Argv, dir, bench.DataDir),
		supervise.ReplaceDir(got.Argv, dir, bench.DataDir)
	return m.Applied(spec, got)
}

// tryFIO lets fio make a few requests with the I/O method that the load can use. fio's
// libraries make other system calls than the load, which a seccomp profile may refuse:
// then fio uses threads, unless the user asked for that method.
func tryFIO(ctx context.Context, t bench.Task, c bench.Clock, facts map[string]string) error {
	if facts[disk.FactIO] == disk.Threads {
		return nil
	}
	spec := specWithData(t)
	dir, err := supervise.DataDir(t.Engine, spec)
	if err != nil {
		return err
	}
	spec.Image, spec.Argv = "host:"+fio.Name, probeArgv(dir, facts)
	if _, err := c.Step("prepare", func() error { return t.Engine.Prepare(ctx, spec) }); err != nil {
		return err
	}
	p, err := supervise.Start(ctx, t.Engine, spec, c, "check of fio")
	if err != nil {
		return err
	}
	defer c.Cleanup(p.Remove)
	text, err := p.Output(ctx)
	if err == nil || ctx.Err() != nil {
		return err
	}
	return useThreads(t.Params["io"], facts, withOutput(text, err))
}

// useThreads makes fio use threads after the chosen I/O method failed, if the choice was
// tare's own.
func useThreads(asked string, facts map[string]string, why error) error {
	if asked != disk.Auto {
		return fmt.Errorf("%w: fio cannot use %s here: use --param io=threads, or --factor seccomp=unconfined: %w",
			bench.ErrUnsupported, facts[disk.FactIO], why)
	}
	facts[disk.FactIO] = disk.Threads
	return nil
}

// probeArgv is the command that makes a few requests in the same way as the patterns.
func probeArgv(dir string, facts map[string]string) []string {
	direct := "--direct=0"
	if facts[disk.FactDirect] == disk.Yes {
		direct = "--direct=1"
	}
	return []string{
		fio.Name, "--output-format=json+", "--eta=never", "--name=check",
		"--filename=" + escaped(path.Join(dir, "tare-fio-check")), "--thread=1",
		"--size=65536", "--bs=4096", "--rw=randread", direct, "--ioengine=" + facts[disk.FactIO], "--iodepth=2", "--unlink=1",
	}
}

// withOutput adds fio's own message to the error of a failed fio, which prints it in place of
// its report.
func withOutput(text []byte, err error) error {
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "fio:") || strings.Contains(line, "err=") {
			return fmt.Errorf("%w; it printed %.200q", err, strings.TrimSpace(line))
		}
	}
	return err
}

// moreSpecific returns the storage of the data as it was known while the program ran, if the
// engine knows only its first word after the container has ended.
func moreSpecific(began, ended string) string {
	if strings.HasPrefix(began, ended+" ") {
		return began
	}
	return ended
}

// check lets the load check the directory without writing anything.
func check(ctx context.Context, t bench.Task, c bench.Clock) (facts map[string]string, err error) {
	p, err := supervise.Start(ctx, t.Engine, checkSpec(t), c, "check of the disk")
	if err != nil {
		return nil, err
	}
	defer c.Cleanup(p.Remove)
	reports, err := p.Reports(ctx, 1)
	if err != nil {
		return nil, err
	}
	return reports[0].Facts, nil
}

func checkSpec(t bench.Task) bench.Spec {
	spec, options := specWithData(t), optionsOf(t, bench.DataDir)
	options["patterns"] = "none"
	spec.Argv = supervise.Loads(nil, supervise.LoadOf(disk.Name, options))
	return spec
}

// The jobs that fio does besides the patterns. Their numbers are not used.
const (
	fillJob   = "fill"   // writes the whole file first
	settleJob = "settle" // writes back what a pattern left in the page cache
)

// fioArgv is the fio command that does the same as the load.
func fioArgv(plan disk.Plan, facts map[string]string) []string {
	argv := []string{fio.Name, "--output-format=json+", "--eta=never"}
	file := path.Join(plan.Dir, "tare-fio")
	job := func(name string, options ...string) {
		argv = append(argv, "--name="+name, "--filename="+escaped(file), "--thread=1", "--stonewall",
			"--size="+size(plan.Size), "--overwrite=1", "--randrepeat=1", "--norandommap=1")
		argv = append(argv, options...)
	}
	once := []string{"--rw=write", "--ioengine=psync", "--end_fsync=1"}
	job(fillJob, append(once, "--bs="+size(fillBlock), "--refill_buffers=1")...)
	for _, p := range plan.Patterns {
		job(p.Name, patternOptions(plan, p, facts)...)
		if p.Write && !p.Sync && facts[disk.FactDirect] == disk.No {
			job(settleJob, append(once, "--bs="+size(int64(plan.Block)), "--number_ios=1")...)
		}
	}
	return append(argv, "--unlink=1") // after the last job
}

const fillBlock = 1 << 20

func patternOptions(plan disk.Plan, p disk.Pattern, facts map[string]string) []string {
	options := []string{
		"--rw=" + p.Name, "--bs=" + size(int64(plan.BlockOf(p))), "--invalidate=1", "--time_based=1",
		"--runtime=" + micros(plan.Time), "--ramp_time=" + micros(plan.Ramp()),
		// Latencies from before the submission of a request, as in the load.
		"--lat_percentiles=1", "--clat_percentiles=0",
	}
	direct := "--direct=0"
	if facts[disk.FactDirect] == disk.Yes {
		direct = "--direct=1"
	}
	depth := strconv.Itoa(plan.Depth)
	switch {
	case p.Sync:
		options[0] = "--rw=write"
		return append(options, "--direct=0", "--ioengine=psync", "--fdatasync=1")
	case facts[disk.FactIO] != disk.Threads:
		return append(options, direct, "--ioengine="+facts[disk.FactIO], "--iodepth="+depth)
	case p.Random:
		return append(options, direct, "--ioengine=psync", "--numjobs="+depth, "--group_reporting=1")
	default:
		part := size(plan.Size / int64(plan.BlockOf(p)) / int64(plan.Depth) * int64(plan.BlockOf(p)))
		return append(options, direct, "--ioengine=psync", "--numjobs="+depth, "--group_reporting=1",
			"--size="+part, "--offset_increment="+part)
	}
}

// escaped escapes a path for fio, which takes a colon as the end of a name.
func escaped(p string) string { return strings.NewReplacer(`\`, `\\`, ":", `\:`).Replace(p) }

func size(n int64) string { return strconv.FormatInt(n, 10) }

func micros(d time.Duration) string { return fmt.Sprintf("%dus", d.Microseconds()) }
