package pack

import (
	_ "embed"
	"io/fs"
	"slices"
)

//go:embed recipes/nginx.conf
var nginxConf string

//go:embed recipes/index.html
var indexPage string

//go:embed recipes/postgres.sh
var postgresEntry string

// postgresBins are the directories of PostgreSQL's programs in distributions that install several
// versions.
var postgresBins = []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin"}

// Recipes are tare's recipes. Changing one changes the digests of images.
func Recipes() []Recipe {
	return []Recipe{
		nginx(),
		postgres(),
		{
			Name: "redis", For: []string{"redis-server", "valkey-server"},
			Also:       []string{"redis-cli", "valkey-cli"},
			Entrypoint: []string{"$PROGRAM"},
			Cmd:        []string{"--save", "", "--appendonly", "no", "--protected-mode", "no"},
			Dir:        "/tmp",
			Ports:      []string{"6379/tcp"},
		},
		// Some distributions build I/O engines as separate files.
		{
			Name: "fio", For: []string{
				"fio",
			}, Open: joinAll([]string{"/usr/lib/*/fio", "/usr/lib/fio", "/usr/lib64/fio", "/usr/local/lib/fio"}, "*.so"),
		},
		{Name: "iperf3", For: []string{"iperf3"}},
		{Name: "pgbench", For: []string{"pgbench", "psql"}, Where: joinAll(postgresBins, "pgbench", "psql")},
		{Name: "stress-ng", For: []string{"stress-ng"}, Dir: "/tmp"},
		// Tests written in Lua. The tests of CPU, memory, threads and files are built in.
		{
			Name: "sysbench", For: []string{
				"sysbench",
			}, Open: []string{"/usr/share/sysbench/*.lua", "/usr/local/share/sysbench/*.lua"},
		},
	}
}

func nginx() Recipe {
	return Recipe{
		Name: "nginx", For: []string{"nginx"},
		Open: []string{"/etc/nginx/mime.types"},
		Make: slices.Concat(
			directories("/run", "/var/cache/nginx", "/var/lib/nginx/tmp", "/var/log/nginx"),
			[]Made{
				{Path: "/etc/nginx/nginx.conf", Mode: 0o644, Text: nginxConf},
				{Path: "/usr/share/nginx/html/index.html", Mode: 0o644, Text: indexPage},
			},
		),
		// It is unknown for which of them nginx was built.
		Users: []User{
			{Name: "www-data", UID: 33, GID: 33}, {Name: "nginx", UID: 101, GID: 101}, {Name: "http", UID: 102, GID: 102},
		},
		Entrypoint: []string{"$PROGRAM", "-g", "daemon off;"},
		Cmd:        []string{"-c", "/etc/nginx/nginx.conf"},
		Ports:      []string{"80/tcp"},
	}
}

func postgres() Recipe {
	return Recipe{
		Name: "postgres", For: []string{"postgres"},
		Where: joinAll(postgresBins, "postgres"),
		With:  []string{"initdb", "/bin/sh", "setpriv"}, // initdb runs commands through the shell
		Also:  []string{"psql", "pg_isready", "pg_controldata"},
		Open: slices.Concat(
			joinAll(
				[]string{"/usr/share/postgresql/$VERSION", "$BIN/../share", "$BIN/../share/postgresql", "$BIN/../share/pgsql"},
				"postgres.bki", "information_schema.sql", "snowball_create.sql", "system_*.sql", "sql_features.txt",
				"pg_hba.conf.sample", "pg_ident.conf.sample", "postgresql.conf.sample",
				"extension/plpgsql*", "timezonesets", "tsearch_data",
			),
			joinAll(
				[]string{"$BIN/../lib", "$BIN/../lib/postgresql", "$BIN/../lib/pgsql", "$BIN/../lib64/pgsql"},
				"dict_snowball.so", "libpqwalreceiver.so", "pgoutput.so", "plpgsql.so", "*_and_*.so", "euc2004_sjis2004.so",
			),
			// Time zones of the system, without the copies in "posix" and "right"; or PostgreSQL's
			// own.
			[]string{"/usr/share/zoneinfo/[A-Z]*", "$BIN/../share/timezone", "$BIN/../share/postgresql/timezone"},
		),
		Make: []Made{
			{Path: "/postgres.sh", Mode: 0o755, Text: postgresEntry},
			{Path: "/run/postgresql", Mode: fs.ModeDir | fs.ModeSticky | 0o777, Owner: "postgres"},
			{Path: "/var/lib/postgresql", Mode: fs.ModeDir | 0o755, Owner: "postgres"},
			{Path: "/var/run/postgresql", Mode: fs.ModeDir | fs.ModeSticky | 0o777, Owner: "postgres"},
		},
		Users:      []User{{Name: "postgres", UID: 999, GID: 999, Home: "/var/lib/postgresql"}},
		Entrypoint: []string{"/postgres.sh"},
		Cmd:        []string{"-c", "listen_addresses=*"},
		Env:        []string{"PGDATA=/var/lib/postgresql/data", "TZ=UTC"},
		Ports:      []string{"5432/tcp"},
	}
}

// joinAll joins each directory with each name.
func joinAll(dirs []string, names ...string) (paths []string) {
	for _, dir := range dirs {
		for _, name := range names {
			paths = append(paths, dir+"/"+name)
		}
	}
	return paths
}

func directories(names ...string) (made []Made) {
	for _, name := range names {
		made = append(made, Made{Path: name, Mode: fs.ModeDir | 0o755})
	}
	return made
}
