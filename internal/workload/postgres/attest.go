package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

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
// for and with the other cells. A difference wraps bench.ErrMismatch.
func (f *fixture) attestServer(ctx context.Context, s *server) error {
	build, err1 := s.factsOf(ctx, buildQuery)
	cluster, err2 := s.factsOf(ctx, clusterQuery)
	settings, err3 := s.factsOf(ctx, settingsQuery)
	session, err4 := s.factsOf(ctx, sessionQuery)
	for _, err := range []error{err1, err2, err3, err4} {
		if err != nil {
			return fmt.Errorf("read back: %w", err)
		}
	}
	made := f.program.image
	if f.options.entry { // each trial has a cluster of its own
		delete(cluster, "system identifier")
		made += " by its entry point"
	} else {
		want := facts{"system identifier": fmt.Sprint(f.template.id), "checksums": "off"}
		if err := differing(want, cluster, "the template"); err != nil {
			return err
		}
	}
	want := facts{"encrypted": fmt.Sprint(f.options.tls), "unix socket": fmt.Sprint(f.socket != "")}
	if err := differing(want, session, "what was asked for"); err != nil {
		return err
	}
	if err := f.attestSettings(settings); err != nil {
		return err
	}
	for _, s := range f.settings {
		if s.ofPlace() {
			delete(settings, s.name)
		}
	}
	a := attestedOf(f.task)
	for _, group := range []struct {
		key string
		got facts
	}{
		{"build " + f.program.image, build},
		{fmt.Sprintf("cluster %s %d", made, f.options.scale), cluster},
		{fmt.Sprintf("settings %s %v", made, f.settingsKey()), settings},
	} {
		if err := a.compare(group.key, f.task.Engine.Name(), group.got); err != nil {
			return err
		}
	}
	return nil
}

// attestProcess checks what the kernel holds for the server's first process; nil means that it cannot
// be seen.
func (f *fixture) attestProcess(p *bench.ProcessFacts) error {
	switch {
	case p == nil:
		return nil
	case p.UID == 0:
		return fmt.Errorf("%w: the server runs as root", bench.ErrMismatch)
	case f.options.entry: // engines have limits of their own, which users get
		return nil
	}
	return attestedOf(f.task).compare("process", f.task.Engine.Name(), facts{"open files": fmt.Sprint(p.Files)})
}

// settingsKey are the settings that cells have in common if the same was asked of them.
func (f *fixture) settingsKey() []setting {
	return slices.DeleteFunc(slices.Clone(f.settings), setting.ofPlace)
}

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

// attested holds what the first server of each kind has said.
type attested struct {
	mu    sync.Mutex
	first map[string]attestedFirst
}

type attestedFirst struct {
	engine string
	facts  facts
}

func attestedOf(t bench.Task) *attested {
	// Making it cannot fail.
	a, _ := bench.GetCommon(t.Common, "postgres attested", func() (*attested, error) {
		return &attested{first: map[string]attestedFirst{}}, nil
	})
	return a
}

// compare compares facts with those of the first server of the same kind.
func (a *attested) compare(key, engine string, got facts) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	first, ok := a.first[key]
	if !ok {
		a.first[key] = attestedFirst{engine, got}
		return nil
	}
	for name := range got {
		if _, ok := first.facts[name]; !ok {
			return fmt.Errorf("%w: %s: %q, but %s has none", bench.ErrMismatch, name, got[name], first.engine)
		}
	}
	return differing(first.facts, got, first.engine)
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
