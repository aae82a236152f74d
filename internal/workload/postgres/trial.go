package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/affinity"
	"github.com/tare-bench/tare/internal/kernel/proc"
	pgload "github.com/tare-bench/tare/internal/load/postgres"
	"github.com/tare-bench/tare/internal/load/postgrestls"
	"github.com/tare-bench/tare/internal/supervise"
	"github.com/tare-bench/tare/internal/text/unit"
)

// Run implements bench.Workload.
func (workload) Run(ctx context.Context, t bench.Task, m bench.Meter) error {
	f, ok := t.Fixture.(*fixture)
	if !ok {
		return errors.New("the workload was not set up")
	}
	return f.trial(ctx, t.Seed, m)
}

// A trial is one server with its parts.
type trial struct {
	*fixture
	*server
	m       bench.Meter
	seed    uint64 // of what is drawn at random
	applied bench.Applied
	noted   []string
	wrote   sums  // what acknowledged transactions wrote
	more    bool  // a part that failed wrote more than it told
	foreign bool  // a user's script has run: nobody knows what it wrote
	failure error // why the server is of no use any more
}

func (f *fixture) trial(ctx context.Context, seed uint64, m bench.Meter) error {
	if f.options.port != 0 { // others have a free one
		if err := supervise.CheckPort(f.task.Turns, f.spec.Network, f.port); err != nil {
			return err
		}
	}
	log := &serverLog{now: m.Now}
	p, err := supervise.StartListening(ctx, f.task.Engine, f.spec, m, "server", log.writer)
	if err != nil {
		return err
	}
	s := &server{
		Process: p, engine: f.task.Engine, log: log, clock: m, port: f.port, socket: f.socket,
		password: f.template.password, stopping: f.options.stopTime(),
	}
	if f.options.entry {
		s.within = entryTime
	}
	if f.options.tls {
		s.tls = postgrestls.Client
	}
	defer m.Cleanup(s.end)
	t := &trial{fixture: f, server: s, m: m, seed: seed}
	if err := s.while(ctx, t.run); err != nil {
		return s.explain(err)
	}
	if err := supervise.LastTurn(ctx, f.task.Turns); err != nil { // to stop is work for the disk
		return err
	}
	if t.failure == nil {
		if err := s.stop(ctx); err != nil {
			return s.explain(err)
		}
	}
	t.noteApplied()
	return m.Applied(f.spec, t.applied)
}

// run does everything while the server runs.
func (t *trial) run(ctx context.Context) error {
	if err := t.begin(ctx); err != nil {
		return err
	}
	var failed []bench.PartOutcome
	var why error // the first failure
	for i, p := range t.options.parts {
		if turns := t.task.Turns; turns != nil && turns.On() {
			turns.Part(i)
		}
		p.seed = partSeed(t.seed, i)
		err := t.failure
		if err == nil {
			err = t.part(ctx, p)
		}
		if err == nil {
			continue
		}
		if ended := hasEnded(ctx); ended != nil {
			t.failure, err = ended, ended
		} else if ctx.Err() != nil || errors.Is(err, bench.ErrMismatch) || errors.Is(err, bench.ErrNoTurns) {
			return err
		}
		if why == nil {
			why = fmt.Errorf("part %s: %w", p.name, err)
		}
		reason := bench.Reason(t.explain(err).Error())
		failed = append(failed, bench.PartOutcome{Part: p.name, Workload: Name, Outcome: bench.Failed, Reason: reason})
	}
	if len(failed) == len(t.options.parts) {
		return why
	}
	if err := t.believe(ctx); err != nil {
		return err
	}
	for _, p := range failed {
		t.m.Part(p)
	}
	return nil
}

// partSeed returns the seed of the nth part of a trial: the same in all cells of a block. A load takes 62 bits.
func partSeed(seed uint64, nth int) uint64 { return rand.NewPCG(seed, uint64(nth)).Uint64() >> 2 }

// part runs one part and records what it gave. What it recorded counts only if it succeeded.
func (t *trial) part(ctx context.Context, p part) error {
	if err := t.beforeScript(ctx, p); err != nil {
		return err
	}
	if err := t.alone(ctx); err != nil {
		return err
	}
	before, err := t.count(ctx, t.template.version)
	if err != nil {
		return err
	}
	t.awaitExits(ctx)
	t.CountNew(ctx) // what was counted until now belongs to nobody
	client, steps, err := t.work(ctx, p)
	if err != nil {
		t.more = t.more || p.writes()
		t.failure = t.log.errSoon(ctx)
		return err
	}
	report := steps[0].report
	if p.sweep != nil {
		report = sumUp(steps)
	}
	committed := report.Values["committed"]
	t.wrote.add(p.script, int64(committed), int64(report.Values["delta"]))
	r := partResult{part: p, report: report, steps: steps}
	for _, s := range steps {
		r.cpu, r.memory = r.cpu+s.server, s.memory
	}
	err = t.attestCPUs(ctx)
	if client != nil {
		t.m.Cleanup(client.Remove)
	}
	if err == nil {
		err = t.alone(ctx)
	}
	if err != nil {
		return err
	}
	after, err := t.count(ctx, t.template.version)
	if err != nil {
		return err
	}
	r.counted = after.since(before)
	if t.failure = t.log.err(); t.failure != nil {
		return t.failure
	}
	if commits := r.counted["commits"]; commits < committed && !filepath.IsAbs(p.script) {
		return fmt.Errorf("the server counts %.0f commits, but acknowledged %.0f transactions", commits, committed)
	}
	t.record(r)
	return nil
}

// beforeScript checks what was written until now, if the part runs a user's script. If nothing was, it reads nothing
// either: that would warm the tables.
func (t *trial) beforeScript(ctx context.Context, p part) error {
	if !filepath.IsAbs(p.script) {
		return nil
	}
	if t.wrote != (sums{}) {
		if err := t.checkTables(ctx); err != nil {
			return err
		}
	}
	t.foreign = true
	return nil
}

// work runs the clients of a part; the process is nil if they have disconnected.
func (t *trial) work(ctx context.Context, p part) (*supervise.Process, []step, error) {
	if !t.options.tool {
		return t.load(ctx, p)
	}
	report, err := t.runTool(ctx, p)
	return nil, []step{{clients: p.clients, report: report}}, err
}

// load runs the clients of a part. They stay connected until the client is removed, but not those of a sweep.
func (t *trial) load(ctx context.Context, p part) (client *supervise.Process, steps []step, err error) {
	spec := t.clientSpec
	spec.Env = append(slices.Clone(spec.Env), pgload.PasswordVariable+"="+t.template.password)
	if spec.Argv, err = t.clientProgram(t.clientOptions(p, t.server)...); err != nil {
		return nil, nil, err
	}
	if err := t.CheckTurns(ctx, t.task.Turns); err != nil {
		return nil, nil, err
	}
	before, known := t.CPU(ctx)
	if !known {
		before = -1
	}
	if client, err = supervise.Start(ctx, t.client, spec, t.m, "client"); err != nil {
		return nil, nil, err
	}
	if err = client.TakeTurns(ctx, t.task.Turns); err == nil {
		steps, err = t.reports(ctx, client, p, before)
	}
	if err != nil {
		t.m.Cleanup(client.Remove)
		return nil, nil, err
	}
	return client, steps, nil
}

// reports waits for the reports of the clients of a part, and reads what the server has used then. Before is the CPU
// time that it had used until then; negative if that is unknown.
func (t *trial) reports(
	ctx context.Context, client *supervise.Process, p part, before time.Duration,
) ([]step, error) {
	var steps []step
	for i, clients := range p.order() {
		all, err := client.Reports(ctx, i+1)
		switch {
		case err != nil && p.sweep != nil:
			return nil, fmt.Errorf("with %s: %w", unit.FormatCount(clients, "client"), err)
		case err != nil:
			return nil, err
		}
		s := step{clients: clients, report: all[i]}
		if p.sweep != nil { // its connections linger
			s.inside = t.countStep(ctx, clients)
		}
		if now, still := t.CPU(ctx); before >= 0 && still {
			s.server, before = now-before, now
		}
		if p.sweep == nil { // they stay connected; in a sweep the next step would be under way before this is read
			s.inside = t.countStep(ctx, clients)
			usage, _ := t.Usage(ctx)
			s.memory = usage.Alone()
		}
		steps = append(steps, s)
	}
	return steps, nil
}

// lingerTime is how long the connections of a step stay after its report: so long, the kernel tells what it has counted
// for the threads of the server that have served it.
const lingerTime = 100 * time.Millisecond

// countStep returns what the kernel has counted for the server since the step before. If processes that have served
// clients have ended meanwhile, as with a connection for each transaction, it is without what went with them.
func (t *trial) countStep(ctx context.Context, clients int) *supervise.Counts {
	counts := t.CountNew(ctx)
	if t.task.Params["connect"] == connectEach || t.serving(ctx) <= clients { // one serves tare itself
		return counts.WithoutThreads()
	}
	return counts
}

// clientProgram returns the argv of the clients. On this host they are tare's own program, which has TLS, in every
// cell: then cells with TLS and without differ by that alone. In a container beside the server's they are the agent.
func (t *trial) clientProgram(each ...map[string]string) ([]string, error) {
	var loads [][]string
	if t.clientSpec.Reach == bench.ReachPeer {
		for _, options := range each {
			loads = append(loads, supervise.LoadOf(pgload.Name, options))
		}
		return supervise.Loads(t.task.Turns, loads...), nil
	}
	for _, options := range each {
		options["tls"] = t.options.server["ssl"]
		loads = append(loads, supervise.LoadOf(postgrestls.Name, options))
	}
	file, err := supervise.Self()
	return supervise.LoadsBy([]string{file, "agent", "load"}, t.task.Turns, loads...), err
}

// attestCPUs checks that the server's processes run where they should, those that serve clients
// too.
func (t *trial) attestCPUs(ctx context.Context) error {
	if len(t.cpus.server) == 0 {
		return nil
	}
	for _, pid := range t.processes(ctx) {
		cpus, ok := allowedCPUs(pid)
		if ok && !isSubset(cpus, t.cpus.server) {
			return fmt.Errorf("%w: CPUs of process %d of the server: asked for %s, got %s", bench.ErrMismatch, pid,
				affinity.Format(t.cpus.server), affinity.Format(cpus))
		}
	}
	return nil
}

func isSubset(some, of []int) bool {
	return !slices.ContainsFunc(some, func(one int) bool { return !slices.Contains(of, one) })
}

// allowedCPUs reads on which CPUs a process may run; false if it has ended.
func allowedCPUs(pid int) (cpus []int, ok bool) {
	text, err := proc.ReadFile(fmt.Sprintf("/proc/%d/status", pid), 64<<10)
	if err != nil {
		return nil, false
	}
	for line := range strings.Lines(string(text)) {
		if list, is := strings.CutPrefix(line, "Cpus_allowed_list:"); is {
			cpus, err = affinity.Parse(strings.TrimSpace(list))
			return cpus, err == nil
		}
	}
	return nil, false
}

// awaitExits waits until no process that has served a client is left but that of tare's own
// connection: the server forgets a client a little before the kernel forgets the process, whose counts
// would be missing at the next reading. If one stays, so do its counts.
func (t *trial) awaitExits(ctx context.Context) {
	const within, every = 5 * time.Second, 2 * time.Millisecond
	for end := t.m.Now() + within; t.m.Now() < end && ctx.Err() == nil; time.Sleep(every) {
		if t.serving(ctx) <= 1 {
			return
		}
	}
}

// serving is how many of the server's processes serve clients, tare's own connection among them.
func (t *trial) serving(ctx context.Context) (n int) {
	for _, pid := range t.processes(ctx) {
		if servesClient(pid) {
			n++
		}
	}
	return n
}

// servesClient reports whether a process of the server serves a client, by its title, or has ended and
// waits to be noticed.
func servesClient(pid int) bool {
	p, err := proc.Find("/", pid)
	if err != nil {
		return false
	}
	args := proc.Args(pid)
	return p.State == 'Z' || len(args) > 0 && strings.HasPrefix(args[0], "postgres: "+userName+" "+userName+" ")
}

// processes lists the server's processes.
func (t *trial) processes(ctx context.Context) []int {
	o, ok := bench.As[bench.ProcessReporter](t.engine)
	if !ok {
		return nil
	}
	first, err := o.Pid(ctx, t.Container())
	if err != nil {
		return nil
	}
	all, err := proc.Descendants("/", first)
	if err != nil {
		return nil
	}
	return all
}

// believe checks that the tables hold what was acknowledged, and that the log tells of no failure.
func (t *trial) believe(ctx context.Context) error {
	if t.failure != nil {
		return nil // the parts that failed say so, and those before it wrote nothing that can be read
	}
	if err := t.checkTables(ctx); err != nil {
		return err
	}
	return t.log.err()
}

// checkTables checks that the tables hold what was acknowledged, as far as anybody knows.
func (t *trial) checkTables(ctx context.Context) error {
	if t.foreign || !t.options.writes() {
		return nil
	}
	got, err := t.sums(ctx)
	if err != nil {
		return err
	}
	if t.options.tool {
		t.wrote.setAmounts(got)
	}
	return got.check(t.wrote, t.more)
}
