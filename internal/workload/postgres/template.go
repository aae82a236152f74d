package postgres

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/netpath"
	"github.com/tare-bench/tare/internal/kernel/userns"
	"github.com/tare-bench/tare/internal/supervise"
)

// A template is a cluster with tables that was stopped cleanly. Trials copy it. Where an image's own entry point
// makes a cluster in each trial, it has only what else these trials share.
type template struct {
	dir      string // everything that belongs to it
	closed   string // the directory around it, through which other users of the host cannot pass
	agent    string // the agent's file
	bytes    int64  // of the cluster; an estimate if each trial makes one
	version  int    // as server_version_num has it, without the minor one
	id       uint64 // the system identifier
	password string
}

// data is the directory of the cluster.
func (p *template) data() string { return filepath.Join(p.dir, "data") }

// Remove removes its files. It is for bench.Common.
func (p *template) Remove(context.Context) error { return os.RemoveAll(p.closed) }

// The files in the cluster's directory that tare makes.
const (
	certificateFile = "tare.crt"
	keyFile         = "tare.key"
)

// templatesName is the name of the templates in Task.Common.
const templatesName = "postgres templates"

// templates are those of a run. Cells share one if they have the same image, scale and WAL. One that cannot be made
// is tried once.
type templates struct {
	mu  sync.Mutex
	all map[templateKey]madeTemplate
}

type templateKey struct {
	image    string // digest
	scale    int
	segments int  // see options.readySegments
	entry    bool // the image's own entry point makes the cluster
}

type madeTemplate struct {
	template *template
	err      error
}

// Remove removes all of them. It is for bench.Common.
func (s *templates) Remove(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for key, made := range s.all {
		if made.template != nil {
			errs = append(errs, made.template.Remove(ctx))
		}
		delete(s.all, key)
	}
	return errors.Join(errs...)
}

// templateOf returns the template of a cell, which it makes if no cell has needed it before.
func (w workload) templateOf(ctx context.Context, t bench.Task, p program, o options) (*template, error) {
	// Making the list cannot fail.
	s, _ := bench.GetCommon(t.Common, templatesName, func() (*templates, error) {
		return &templates{all: map[templateKey]madeTemplate{}}, nil
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	key := templateKey{p.image, o.scale, o.readySegments(), p.entry != nil}
	if made, ok := s.all[key]; ok {
		return made.template, made.err
	}
	made, err := w.makeTemplate(ctx, t, p, o)
	if err != nil {
		err = fmt.Errorf("make the cluster: %w", err)
	}
	if ctx.Err() == nil {
		s.all[key] = madeTemplate{made, err}
	}
	return made, err
}

// A builder makes one template.
type builder struct {
	*template
	program program
	engine  bench.Engine
	spec    bench.Spec // of its containers
	at      string     // the cluster while it is made
	user    string     // UID:GID who makes it
	clock   supervise.SetupClock
}

func (w workload) makeTemplate(ctx context.Context, t bench.Task, p program, o options) (made *template, err error) {
	b := &builder{template: &template{password: rand.Text()}, program: p}
	if b.closed, err = os.MkdirTemp(t.Dir, "postgres-"); err != nil {
		return nil, err
	}
	defer func() {
		err = errors.Join(err, b.clock.Err())
		if err != nil {
			err = errors.Join(err, b.removeWork(ctx), os.RemoveAll(b.closed))
		}
	}()
	if err := b.makeDir(); err != nil {
		return nil, err
	}
	if b.agent, err = w.images(t.Dir).WriteAgent(b.dir); err != nil {
		return nil, err
	}
	if err := b.chooseEngine(ctx, t); err != nil {
		return nil, err
	}
	for _, step := range b.steps(o) {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return b.template, nil
}

// steps are what is done to make it, one after the other.
func (b *builder) steps(o options) []func(context.Context) error {
	estimate := emptyCluster + int64(o.scale)*eachScale
	if b.program.entry != nil {
		b.bytes = estimate
		return []func(context.Context) error{b.askVersion}
	}
	return []func(context.Context) error{
		func(context.Context) error {
			return checkRoom(b.closed, "the cluster", estimate, "choose another --state, or a smaller scale")
		},
		b.askVersion, b.initialize, b.configure,
		func(ctx context.Context) error { return b.fill(ctx, o) },
		b.bring,
		func(context.Context) error { return b.finish() },
	}
}

// makeDir makes the directory of the cluster, which gets another owner if this is root. Whoever may read it can
// log in to the servers of all trials, and run programs there.
func (b *builder) makeDir() error {
	b.dir = filepath.Join(b.closed, "cluster")
	if err := os.Mkdir(b.dir, 0o700); err != nil || os.Geteuid() != 0 {
		return err
	}
	// Runtimes look up mounts as the root of a container's user namespace.
	return errors.Join(userns.AllowTraverse(b.closed), os.Chmod(b.dir, 0o777|fs.ModeSticky))
}

// admit lets a user of the host pass to the cluster if plain processes make it; otherwise they get there by a mount.
func (b *builder) admit(user string) error {
	if !b.program.host || os.Geteuid() != 0 {
		return nil
	}
	uid, _, _ := strings.Cut(user, ":")
	n, err := strconv.Atoi(uid)
	if err != nil {
		return err
	}
	return os.Chown(b.closed, n, -1)
}

// workName is the name of the data of plain processes that make a cluster.
const workName = "postgres-template"

// chooseEngine has the cluster made by a plain process if the server is this host's, and otherwise
// by the engine of the cell. A plain process works in a directory of data, as the servers of trials do: the engine
// finds by it what a killed server leaves elsewhere on the host.
func (b *builder) chooseEngine(ctx context.Context, t bench.Task) error {
	if b.program.host {
		b.engine, b.spec = t.Client, bench.Spec{Network: "host", Storage: "bind", DataName: workName}
		dir, err := supervise.DataDir(b.engine, b.spec)
		b.at = filepath.Join(dir, "cluster")
		return errors.Join(err, passable(b.closed))
	}
	b.at = b.data()
	t.Spec = bench.Spec{Image: imageOf(t), Runtime: t.Spec.Runtime, Snapshotter: t.Spec.Snapshotter}
	spec, err := supervise.Reachable(ctx, t, nil)
	spec.Mounts = []bench.Mount{{Type: "bind", Source: b.dir, Target: b.dir}}
	b.engine, b.spec = t.Engine, spec
	return err
}

// passable returns an error if a plain process without root cannot get to a directory, and names the
// first one that is closed.
func passable(dir string) error {
	if os.Geteuid() != 0 {
		return nil // it has this user
	}
	for at := filepath.Dir(dir); at != "/"; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o001 == 0 {
			return fmt.Errorf("the server does not run as root, and %s is closed to other users: choose another --state, or "+
				"chmod o+x it", at)
		}
	}
	return nil
}

// users are those who may make the cluster: initdb needs one whom the image knows. A server needs
// none.
func (b *builder) users() []string {
	var all []string
	if b.program.host {
		if u, err := user.Lookup("postgres"); err == nil {
			all = append(all, u.Uid+":"+u.Gid)
		}
	}
	// Of Debian's and Alpine's images, of Red Hat's packages, and nobody.
	return append(all, "999:999", "70:70", "26:26", "65534:65534")
}

// initialize runs initdb.
func (b *builder) initialize(ctx context.Context) (err error) {
	secret := filepath.Join(b.dir, "password")
	if err := writeNew(secret, b.password+"\n"); err != nil {
		return err
	}
	for _, b.user = range b.users() {
		if err = b.initializeAs(ctx, secret); err == nil || !strings.Contains(err.Error(), "look up effective user") {
			break
		}
	}
	return errors.Join(err, os.Remove(secret))
}

// writeNew writes a file that every user may read. One that is there already is an error: the image's server, which told
// its version, could have left a link to another one.
func writeNew(name, text string) (err error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = f.WriteString(text)
	return errors.Join(err, f.Chmod(0o644))
}

func (b *builder) initializeAs(ctx context.Context, secret string) error {
	if err := b.admit(b.user); err != nil {
		return err
	}
	argv := []string{
		filepath.Join(b.program.bin(), "initdb"), "--pgdata=" + b.at, "--no-sync", "--locale=C", "--encoding=UTF8",
		"--username=" + userName, "--auth=md5", "--pwfile=" + secret,
	}
	p, err := b.start(ctx, "initdb", nil, append(argv, withoutChecksums(b.version)...)...)
	if err != nil {
		return err
	}
	defer b.clock.Cleanup(p.Remove)
	_, err = p.Output(ctx)
	return err
}

// withoutChecksums are the arguments of initdb for pages without checksums. Only versions that have them by default
// know a word for that.
func withoutChecksums(version int) []string {
	if version < 180000 {
		return nil
	}
	return []string{"--no-data-checksums"}
}

// start starts a program as the cluster's user.
func (b *builder) start(
	ctx context.Context, role string, log *serverLog, argv ...string,
) (*supervise.Process, error) {
	l := supervise.Launch{Launch: agent.Launch{User: b.user}, Agent: b.agent, Program: argv}
	spec := l.Spec(b.engine, b.spec)
	if err := b.engine.Prepare(ctx, spec); err != nil {
		return nil, err
	}
	if log == nil {
		return supervise.Start(ctx, b.engine, spec, &b.clock, role)
	}
	return supervise.StartListening(ctx, b.engine, spec, &b.clock, role, log.writer)
}

// open opens the directory of the cluster. The image's programs could write there: what they left must not lead tare,
// which is root, to other files.
func (b *builder) open() (*os.Root, error) {
	if info, err := os.Lstat(b.at); err == nil && !info.IsDir() {
		return nil, fmt.Errorf("%s, where the image's initdb should make a cluster, is no directory (%v)", b.at, info.Mode())
	}
	cluster, err := os.OpenRoot(b.at)
	if err != nil {
		return nil, fmt.Errorf("%w: tare cannot read what the image's initdb has made: run it as root", err)
	}
	return cluster, nil
}

// configure writes what belongs into the cluster's directory.
func (b *builder) configure(context.Context) (err error) {
	cluster, err := b.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	if err := checkEntries(cluster); err != nil {
		return err
	}
	if _, err := cluster.Lstat("PG_VERSION"); err != nil {
		return fmt.Errorf("the image's initdb has made no cluster: %w", err)
	}
	cert, key, err := supervise.Certify()
	if err != nil {
		return err
	}
	for name, text := range map[string]string{
		certificateFile: cert, keyFile: key, "pg_hba.conf": "local all all md5\nhost all all all md5\n",
	} {
		if err := b.write(cluster, name, text); err != nil {
			return err
		}
	}
	return nil
}

// write makes a file of the cluster's user, in place of one that may be there.
func (b *builder) write(cluster *os.Root, name, text string) (err error) {
	if err := cluster.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := cluster.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.WriteString(text); err != nil || os.Geteuid() != 0 {
		return err
	}
	owner, group, err := parseUser(b.user)
	if err != nil {
		return err
	}
	return f.Chown(owner, group)
}

func parseUser(s string) (uid, gid int, err error) {
	u, g, _ := strings.Cut(s, ":")
	uid, err1 := strconv.Atoi(u)
	gid, err2 := strconv.Atoi(g)
	return uid, gid, errors.Join(err1, err2)
}

// fill makes the tables, as pgbench -i does.
func (b *builder) fill(ctx context.Context, o options) (err error) {
	port, own := uint16(5432), supervise.OwnNetwork(b.spec.Network)
	addresses := "*"
	if !own {
		addresses = "127.0.0.1"
		if port, err = netpath.FreePort(netip.IPv4Unspecified(), "tcp"); err != nil {
			return err
		}
	} else {
		b.spec.Ports = []bench.Port{{Container: port, Protocol: "tcp"}}
	}
	argv := slices.Concat([]string{b.program.path, "-D", b.at}, arguments([]setting{
		{"listen_addresses", addresses},
		{"port", strconv.Itoa(int(port))},
		{"unix_socket_directories", ""},
		{"log_destination", "stderr"},
		{"logging_collector", "off"},
		{"lc_messages", "C"},
		{"fsync", "off"},
		{"full_page_writes", "off"},
		{"synchronous_commit", "off"},
		{"wal_level", "minimal"},
		{"max_wal_senders", "0"},
		{"autovacuum", "off"},
		{"checkpoint_timeout", "1d"},
		{"max_wal_size", "8GB"},
		{"min_wal_size", strconv.Itoa(walSegment>>20*max(2, o.readySegments()+1)) + "MB"}, // at least two segments
		{"shared_buffers", "256MB"},
		{"maintenance_work_mem", "256MB"},
		{"huge_pages", "off"},
	}))
	log := &serverLog{}
	p, err := b.start(ctx, "server", log, argv...)
	if err != nil {
		return err
	}
	s := &server{
		Process: p, engine: b.engine, log: log, clock: &b.clock, port: port, password: b.password,
		diskFull: "the file system on which tare makes the cluster is full: choose another --state, or a smaller scale",
	}
	defer b.clock.Cleanup(s.end)
	err = s.while(ctx, func(ctx context.Context) error {
		if err := s.ready(ctx); err != nil {
			return err
		}
		s.Applied(ctx, &b.clock) // the engine notes what shared memory it has
		if err := s.dropUnused(ctx); err != nil {
			return err
		}
		return s.populate(ctx, o)
	})
	if err == nil {
		err = s.stop(ctx)
	}
	return s.explain(err)
}

// bring brings the cluster to its place, if plain processes have made it in another one.
func (b *builder) bring(ctx context.Context) error {
	if b.at == b.data() {
		return nil
	}
	err := errors.Join(os.Rename(b.at, b.data()), b.removeWork(ctx))
	b.at = b.data()
	return err
}

// removeWork removes the directory in which plain processes have worked, if there is one.
func (b *builder) removeWork(ctx context.Context) error {
	if b.spec.DataName == "" {
		return nil
	}
	holder, ok := bench.As[bench.DataHolder](b.engine)
	if !ok {
		return nil
	}
	return holder.RemoveData(ctx, b.spec)
}

// finish checks that the cluster was stopped cleanly, and lets every user read it if this is root:
// the launcher in a container may be the root of a user namespace.
func (b *builder) finish() (err error) {
	cluster, err := b.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	if err := checkEntries(cluster); err != nil {
		return err
	}
	control, err := cluster.ReadFile("global/pg_control")
	if err != nil {
		return err
	}
	if b.id, err = cleanlyStopped(control); err != nil {
		return err
	}
	for _, name := range []string{"postmaster.pid", "postmaster.opts"} {
		if err := cluster.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	forAll := fs.FileMode(0)
	if os.Geteuid() == 0 {
		forAll = 0o055
		if err := b.admit("0:0"); err != nil { // from now on root copies it
			return err
		}
	}
	return fs.WalkDir(cluster.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			return cluster.Chmod(name, 0o700|forAll)
		}
		info, err := cluster.Lstat(name)
		if err != nil {
			return err
		}
		b.bytes += info.Size()
		return cluster.Chmod(name, 0o600|forAll&0o044)
	})
}

// checkEntries returns an error if a cluster has anything but files and directories. PostgreSQL itself makes links only
// for tablespaces and for a WAL elsewhere, and tare asks for neither.
func checkEntries(cluster *os.Root) error {
	return fs.WalkDir(cluster.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Type().IsRegular() {
			return err
		}
		return fmt.Errorf("the image's programs left %.200q in the cluster, which is neither a file nor a directory (%v): "+
			"choose an image whose initdb makes a plain cluster", name, e.Type())
	})
}

// cleanlyStopped reads the system identifier from a control file, whose first fields are the same in
// all versions: the identifier, the versions of the file and of the catalog, and the state. It is in
// this machine's byte order.
func cleanlyStopped(control []byte) (id uint64, err error) {
	const (
		state    = 16 // offset
		shutDown = 1
	)
	if len(control) < state+4 {
		return 0, fmt.Errorf("the control file of the cluster has %d bytes", len(control))
	}
	if now := binary.NativeEndian.Uint32(control[state:]); now != shutDown {
		return 0, fmt.Errorf("the cluster was not shut down: its state is %d, want %d", now, shutDown)
	}
	return binary.NativeEndian.Uint64(control), nil
}
