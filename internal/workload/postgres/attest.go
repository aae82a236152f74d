package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
)

// Facts are what a server says about itself, by name.
type facts map[string]string

// buildQuery asks what the server was made of. All cells with the same image must agree.
const buildQuery = `SELECT 'version', version()
UNION ALL SELECT 'compiled ' || name, setting FROM pg_config WHERE name IN ('CONFIGURE', 'CFLAGS')
UNION ALL SELECT 'JIT compiler', pg_jit_available()::text
UNION ALL SELECT 'block size', current_setting('block_size')
UNION ALL SELECT 'WAL segment size', current_setting('wal_segment_size')`

// clusterQuery asks what the cluster is. All cells with the same image and scale must agree, because
// they have copies of one cluster, or clusters that one entry point has made.
const clusterQuery = `SELECT 'system identifier', system_identifier::text FROM pg_control_system()
UNION ALL SELECT 'checksums', current_setting('data_checksums')
UNION ALL SELECT 'encoding', pg_encoding_to_char(encoding) FROM pg_database WHERE datname = current_database()
UNION ALL SELECT 'collation', datcollate || ' ' || datctype FROM pg_database WHERE datname = current_database()
UNION ALL SELECT 'order of a and B', ('a' < 'B')::text`

// settingsQuery asks for everything that is not as the server has it by default. Option set has lower case,
// which the server takes for any.
const settingsQuery = `SELECT lower(name), setting || ' (' || source || ')' FROM pg_settings
WHERE source NOT IN ('default', 'client', 'override')`

// sessionQuery asks how this session reaches the server.
const sessionQuery = `SELECT 'encrypted', (EXISTS (SELECT FROM pg_stat_ssl WHERE ssl AND pid = pg_backend_pid()))::text
UNION ALL SELECT 'unix socket', (inet_server_addr() IS NULL)::text`

// factsOf returns two columns of an answer as facts.
func (s *server) factsOf(ctx context.Context, query string) (facts, error) {
	rows, err := s.sql.Query(ctx, query)
	if err != nil {
		return nil, err
	}
	all := facts{}
	for _, row := range rows {
		if len(row) != 2 {
			return nil, fmt.Errorf("an answer with %d columns, want 2", len(row))
		}
		all[row[0]] = row[1]
	}
	return all, nil
}

// attestServer reads back by SQL what the server is and has, and compares that with what was asked
// for and with the other cells. A difference wraps bench.ErrMismatch. It returns what trials keep.
func (f *fixture) attestServer(ctx context.Context, s *server) (facts, error) {
	build, err1 := s.factsOf(ctx, buildQuery)
	cluster, err2 := s.factsOf(ctx, clusterQuery)
	settings, err3 := s.factsOf(ctx, settingsQuery)
	session, err4 := s.factsOf(ctx, sessionQuery)
	for _, err := range []error{err1, err2, err3, err4} {
		if err != nil {
			return nil, fmt.Errorf("read back: %w", err)
		}
	}
	build["program"] = f.program.digest
	made := f.program.image
	if f.options.entry { // each trial has a cluster of its own
		delete(cluster, identifier)
		made += " by its entry point"
	} else {
		want := facts{identifier: fmt.Sprint(f.template.id), "checksums": "off"}
		if err := differing(want, cluster, "the template"); err != nil {
			return nil, err
		}
	}
	want := facts{"encrypted": fmt.Sprint(f.options.tls), "unix socket": fmt.Sprint(f.socket != "")}
	if err := differing(want, session, "what was asked for"); err != nil {
		return nil, err
	}
	if err := f.attestSettings(settings); err != nil {
		return nil, err
	}
	maps.DeleteFunc(settings, func(name, _ string) bool { return setting{name: name}.ofPlace() })
	for _, one := range []struct {
		key        string
		asked, got facts
	}{
		{"build " + f.program.image, nil, build},
		{fmt.Sprintf("cluster %s %d", made, f.options.scale), nil, cluster},
		{"settings " + made, f.askedSettings(), settings},
	} {
		if err := f.compare(one.key, one.asked, one.got); err != nil {
			return nil, err
		}
	}
	kept := joined(build, cluster, settings, session)
	delete(kept, identifier) // of this run alone
	return kept, nil
}

// identifier is a fact that tells clusters apart.
const identifier = "system identifier"

// joined returns facts of several kinds as one.
func joined(all ...facts) facts {
	out := facts{}
	for _, one := range all {
		maps.Copy(out, one)
	}
	return out
}

// compare compares what is told of the cell's server with other cells.
func (f *fixture) compare(key string, asked, got facts) error {
	return attestedOf(f.task).compare(key, attestedServer{f.task.Engine.Name(), asked, got})
}

// askedSettings are the values that were asked of settings that can be compared.
func (f *fixture) askedSettings() facts {
	asked := facts{}
	for _, s := range f.settings {
		asked[s.name] = s.value
	}
	return asked
}

// attestApplied checks what the launcher and the kernel tell of the server's first process and of its data. What was
// asked for in the same words is the same in all cells.
func (f *fixture) attestApplied(done agent.Prepared, got bench.Applied) error {
	asked := fmt.Sprintf("CPUs %q %t", f.task.Spec.Limits.CPUSet, f.options.pin)
	if err := f.compare(asked, nil, facts{"CPUs": done.CPUs}); err != nil {
		return err
	}
	if err := f.attestData(got.DataMounts); err != nil {
		return err
	}
	switch p := got.Process; {
	case p == nil: // it cannot be seen
		return nil
	case p.UID == 0:
		return fmt.Errorf("%w: the server runs as root", bench.ErrMismatch)
	case f.options.entry: // engines and images have users and limits of their own, which users get
		return nil
	case !got.Security.UserNS && p.UID != done.UID:
		return fmt.Errorf("%w: user of the server: the launcher became %d, got %d", bench.ErrMismatch, done.UID, p.UID)
	default:
		own := facts{"open files": fmt.Sprint(p.Files)}
		if _, everywhere := serverUser(); everywhere {
			own["user"] = fmt.Sprint(done.UID)
		}
		return f.compare("process", nil, own)
	}
}

// attestData checks that the data are on the same as in the other cells whose storage was named alike. A layer is the
// engine's own, as is its file system.
func (f *fixture) attestData(mounts []string) error {
	asked := f.task.Spec
	if asked.Storage == "layer" || len(mounts) == 0 { // they cannot be seen
		return nil
	}
	err := f.compare(fmt.Sprintf("data %q %q", asked.Storage, asked.Data), nil, facts{"data on": syncing(mounts)})
	if err != nil {
		return fmt.Errorf("%w: set storage to bind and data to one directory for all cells, or name the storage of each",
			err)
	}
	return nil
}

// syncing describes the file systems below the data as far as that says how they are written and synced. Left out are
// options that limit who may do what and how much fits, and how an overlay finds what is below it.
func syncing(mounts []string) string {
	var all []string
	for _, one := range mounts {
		system, options, _ := strings.Cut(one, " ")
		words := strings.Split(options, ",")
		words = slices.DeleteFunc(words, func(o string) bool {
			name, _, _ := strings.Cut(o, "=")
			return slices.Contains(ofAccess(), name) || system == "overlay" && !slices.Contains(ofSyncs(), name)
		})
		slices.Sort(words)
		all = append(all, strings.TrimSpace(system+" "+strings.Join(words, ",")))
	}
	return strings.Join(all, " on ")
}

// ofAccess are mount options that say nothing of how data are written.
func ofAccess() []string {
	return []string{
		"rw", "nosuid", "nodev", "noexec", "uid", "gid", "mode", "size", "nr_blocks", "nr_inodes", "inode32", "inode64",
		"seclabel", "idmapped", "subvol",
	}
}

// ofSyncs are the options of an overlay that decide what a sync means.
func ofSyncs() []string { return []string{"volatile", "fsync", "sync", "dirsync"} }

// attestSettings checks that every setting came from the command line: then nothing has replaced it. What
// tare has written itself must read the same; users may write true for on.
func (f *fixture) attestSettings(got facts) error {
	for _, s := range f.settings {
		if s.value == "" {
			continue // an empty one may be the default
		}
		value, source, _ := strings.Cut(got[s.name], " (")
		if source != "command line)" {
			return fmt.Errorf("%w: setting %s: asked for %s, got %q", bench.ErrMismatch, s.name, s.value, got[s.name])
		}
		if slices.Contains(exactSettings(), s.name) && !slices.Contains(f.options.set, s) && value != s.value {
			return fmt.Errorf("%w: setting %s: asked for %s, got %s", bench.ErrMismatch, s.name, s.value, value)
		}
	}
	want, _ := bufferPages(f.options.server["shared_buffers"]) // it was validated
	if pages, _, _ := strings.Cut(got["shared_buffers"], " "); pages != fmt.Sprint(want) {
		return fmt.Errorf("%w: setting shared_buffers: asked for %d pages, got %s", bench.ErrMismatch, want, pages)
	}
	return nil
}

// exactSettings are read back as they were written.
func exactSettings() []string {
	return []string{
		"fsync", "synchronous_commit", "full_page_writes", "ssl", "wal_sync_method", "autovacuum", "jit", "huge_pages",
		"track_io_timing", "track_wal_io_timing", "io_method", "max_connections",
	}
}

// attested holds what the servers of each kind have said, one for each that was asked for something else.
type attested struct {
	mu   sync.Mutex
	seen map[string][]attestedServer
	disk string // the file system at the bottom of the first data that are not in memory by request
}

// onSame reports whether data lie on a file system like the first ones. Two disks with the same are not told apart.
func (a *attested) onSame(disk string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.disk == "" {
		a.disk = disk
	}
	return a.disk == disk
}

// An attestedServer is what one server has said.
type attestedServer struct {
	engine string
	asked  facts // that may differ between cells, by the names of facts
	facts  facts
}

func attestedOf(t bench.Task) *attested {
	// Making it cannot fail.
	a, _ := bench.GetCommon(t.Common, "postgres attested", func() (*attested, error) {
		return &attested{seen: map[string][]attestedServer{}}, nil
	})
	return a
}

// compare compares facts with those of earlier servers of the same kind: all but those of which something else was
// asked.
func (a *attested) compare(key string, now attestedServer) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	known := false
	for _, earlier := range a.seen[key] {
		want, got := earlier.comparable(now), now.comparable(earlier)
		for name := range got {
			if _, ok := want[name]; !ok {
				return fmt.Errorf("%w: %s: %q, but %s has none", bench.ErrMismatch, name, got[name], earlier.engine)
			}
		}
		if err := differing(want, got, earlier.engine); err != nil {
			return err
		}
		known = known || maps.Equal(earlier.asked, now.asked)
	}
	if !known {
		a.seen[key] = append(a.seen[key], now)
	}
	return nil
}

// comparable returns the facts of which the same was asked of another server, or nothing of both.
func (s attestedServer) comparable(other attestedServer) facts {
	out := maps.Clone(s.facts)
	maps.DeleteFunc(out, func(name, _ string) bool {
		mine, asked := s.asked[name]
		theirs, too := other.asked[name]
		return asked != too || mine != theirs
	})
	return out
}

// differing returns an error that names the first fact that differs.
func differing(want, got facts, whose string) error {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got[name] != want[name] {
			return fmt.Errorf("%w: %s: %.200q, but %.200q of %s", bench.ErrMismatch, name, got[name], want[name], whose)
		}
	}
	return nil
}
