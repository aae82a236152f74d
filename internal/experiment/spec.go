package experiment

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/experiment/yamldoc"
)

// A setting is one thing that a cell is given: its engine, a field of its
// Spec or an option of its workload.
type setting struct {
	path      string          // "engine", a key of spec such as "cpus", or "params.NAME"
	at        yamldoc.Place   // of the value
	name      yamldoc.Place   // of the name, where an option has one beside its value
	text      string          // of an engine, or an option of the workload
	words     []yamldoc.Place // of the words of an option that was written as a list
	maybeSpec bool            // an option written where a key of spec may have been meant
	apply     func(*bench.Cell)
}

// option returns the name of the workload's option that the setting sets.
func (s setting) option() (string, bool) { return strings.CutPrefix(s.path, "params.") }

// paramSetting sets an option of the workload. Whether there is one of that
// name is known only when the plan is made.
func paramSetting(name, text string, at yamldoc.Place) setting {
	return setting{path: "params." + name, at: at, text: text, apply: func(c *bench.Cell) {
		// Cells begin as copies of one another and must not share the map.
		c.Params = maps.Clone(c.Params)
		if c.Params == nil {
			c.Params = map[string]string{}
		}
		c.Params[name] = text
	}}
}

// A specKey is a key of spec. It can be a factor too, if its value is a word.
type specKey struct {
	key[[]setting]
	factor bool // a factor of this name has plain levels
	bare   bool // its levels speak for themselves in a cell's name: "docker host", but "docker cpus=2"
}

// set makes a key of spec that sets the field which the function returns.
func set[F any](name, doc, example string, v value[F], into func(*bench.Spec) *F) specKey {
	return specKey{key: key[[]setting]{
		name: name, doc: doc, example: example, want: v.want, schema: v.schema,
		read: func(r *reader, n yamldoc.Node, out *[]setting) {
			f, ok := v.read(r, n)
			if !ok {
				return
			}
			*out = append(*out, setting{path: name, at: n.At, apply: func(c *bench.Cell) { *into(&c.Spec) = f }})
		},
	}}
}

func factorOf(k specKey) specKey     { k.factor = true; return k }
func bareFactorOf(k specKey) specKey { k.factor, k.bare = true, true; return k }

// specKeys is the table of what a container can be given.
func specKeys() []specKey {
	type s = bench.Spec
	return []specKey{
		bareFactorOf(set("image", "Image to run: `agent` (tare's own, the default), `oci:DIR`, `tar:FILE`, "+
			"`docker://REF` (in a registry), `host:PROGRAM` (a program of this host with everything that it needs, "+
			"by its name or absolute path; `native` runs it where it is), or a name in the engine's own store.",
			"image: host:fio", imageRef(), func(s *s) *string {
				return &s.Image
			})),
		bareFactorOf(set("argv", "Program and arguments; there is no shell. Default: the image's own.",
			"argv: [/usr/bin/true]", listOf(anyText()), func(s *s) *[]string { return &s.Argv })),
		set("env", "Environment, added to the image's.", "env: {LANG: C}", environment(),
			func(s *s) *[]string { return &s.Env }),
		set("dir", "Working directory inside. Default: the image's, else /.", "dir: /srv", absolutePath(),
			func(s *s) *string { return &s.Dir }),
		set("mounts", "File systems to mount inside.",
			"mounts: [{type: bind, source: /srv/data, target: /data, read_only: true}]", listOf(mount()),
			func(s *s) *[]bench.Mount { return &s.Mounts }),
		bareFactorOf(networkKey()),
		set("ports", "Ports inside that clients outside can reach. Only `network: published`, `slirp4netns` and `pasta` "+
			"publish them on the host.", "ports: [{container: 80, protocol: tcp}]", listOf(port()),
			func(s *s) *[]bench.Port { return &s.Ports }),
		set("data", "Directory of the host for the data of plain processes and of `storage: bind`; it determines which "+
			"disk is measured. Default: the run's own directory.", "data: /srv/scratch", absolutePath(),
			func(s *s) *string { return &s.Data }),
		bareFactorOf(set("storage", "Where the workload's data lies: the container's writable `layer`, a `volume`, a "+
			"`bind` mount or a `tmpfs`.", "storage: tmpfs", oneOf("storage", Storages()...),
			func(s *s) *string { return &s.Storage })),
		bareFactorOf(set("runtime", "OCI runtime, for an engine that has several.", "runtime: crun",
			text(), func(s *s) *string {
				return &s.Runtime
			})),
		bareFactorOf(set("snapshotter", "Snapshotter, for an engine that has several.", "snapshotter: native", text(),
			func(s *s) *string { return &s.Snapshotter })),
		factorOf(set("cpus", "CPU quota: 0.5 is half of one CPU.", "cpus: 0.5", withWord(cpuQuota(), "unlimited", 0),
			func(s *s) *float64 { return &s.Limits.CPUs })),
		factorOf(set("cpuset", "CPUs that the container may use, written as the kernel does.", "cpuset: 0-1",
			withWord(cpuList(), "all", ""), func(s *s) *string { return &s.Limits.CPUSet })),
		factorOf(set("memory", "Memory limit; it does not limit swap.", "memory: 64MiB", withWord(size(), "unlimited", 0),
			func(s *s) *int64 { return &s.Limits.Memory })),
		factorOf(set("pids", "Limit of processes and threads.", "pids: 100", withWord(count(1, 1<<22), "unlimited", 0),
			func(s *s) *int64 { return &s.Limits.Pids })),
		factorOf(set("shm", "Size of /dev/shm. Default: the engine's, mostly 64 MiB; a plain process has the host's.",
			"shm: 1GiB", withWord(size(), "default", 0), func(s *s) *int64 { return &s.Shm })),
		factorOf(set("seccomp", "`unconfined` allows every system call; `default` is the engine's own filter; `docker` is "+
			"the default profile of Docker and containerd, for every engine, even for runtimes without a profile of their own.",
			"seccomp: unconfined", seccomp(), func(s *s) *string { return &s.Security.Seccomp })),
		factorOf(set("userns", "Use a separate user namespace.", "userns: true", boolean(),
			func(s *s) *bool { return &s.Security.UserNS })),
		factorOf(set("read_only", "Mount the root file system read-only.", "read_only: true", boolean(),
			func(s *s) *bool { return &s.Security.ReadOnly })),
		factorOf(set("no_new_privileges", "Programs inside gain no privileges from set-user-ID and the like.",
			"no_new_privileges: true", boolean(), func(s *s) *bool { return &s.Security.NoNewPrivileges })),
		factorOf(set("privileged", "Every privilege that the engine can give.", "privileged: true", boolean(),
			func(s *s) *bool { return &s.Security.Privileged })),
	}
}

// networks says what each word for a network means: the kind and, if there are several
// ways to reach the container, the way.
func networks() []struct{ word, kind, reach string } {
	return []struct{ word, kind, reach string }{
		{"none", "none", ""},
		{"host", "host", ""},
		{"bridge", "bridge", ""},
		{"published", "bridge", "published"},
		{"peer", "bridge", "peer"},
		{"macvlan", "macvlan", "peer"},
		{"slirp4netns", "slirp4netns", "published"},
		{"pasta", "pasta", "published"},
		{socketWord, "", "socket"},
	}
}

// socketWord is the network of a container that only a Unix socket reaches.
const socketWord = "socket"

// networkKey sets two fields with one word.
func networkKey() specKey {
	words := make([]string, 0, len(networks())+1)
	for _, n := range networks() {
		words = append(words, n.word)
	}
	v := oneOf("network", append(words, native)...)
	return specKey{key: key[[]setting]{
		name: "network", example: "network: host", want: v.want, schema: v.schema,
		doc: "`none` (a separate namespace with only loopback; the default), `host`, `bridge` (clients connect to the " +
			"container's address), `published` (a bridge; clients connect to a port of the host), `peer` (a bridge; the " +
			"client is a second container), `macvlan`, `slirp4netns`, `pasta` or `socket` (a Unix socket in a bind mount, " +
			"and no network, for workloads that can use one). As a level of a factor, `native` is the plain process: " +
			"of these it has only `host` and `socket`.",
		read: func(r *reader, n yamldoc.Node, out *[]setting) {
			word, ok := v.read(r, n)
			if !ok {
				return
			}
			*out = append(*out, setting{path: "network", at: n.At, apply: func(c *bench.Cell) {
				c.Spec.Network, c.Spec.Reach = "", "" // of the plain process: what it has
				for _, n := range networks() {
					if n.word == word {
						c.Spec.Network, c.Spec.Reach = n.kind, n.reach
					}
				}
			}})
		},
	}}
}

// seccomp knows a word for what an empty string means in a Spec.
func seccomp() value[string] {
	return convert(oneOf("seccomp profile", "default", "unconfined", bench.SeccompDocker), func(s string) string {
		if s == "default" {
			return ""
		}
		return s
	})
}

// environment reads {NAME: value}.
func environment() value[[]string] {
	type entries = []entry[string]
	vars := checked(named("a mapping of names to values", anyText()), func(r *reader, _ yamldoc.Node, vars *entries) bool {
		for _, v := range *vars {
			if v.name == "" || strings.ContainsAny(v.name, "=\x00") {
				r.Fail(v.at, fmt.Sprintf("%s cannot be the name of a variable", yamldoc.Quote(v.name)), "")
				return false
			}
		}
		return true
	})
	return convert(vars, func(vars entries) []string {
		env := make([]string, len(vars))
		for i, v := range vars {
			env[i] = v.name + "=" + v.value
		}
		return env
	})
}

func mount() value[bench.Mount] {
	type m = bench.Mount
	v := object("a mount (a mapping with type and target)", []key[m]{
		required(fieldOf("type", "`bind` or `tmpfs`.", "type: bind", oneOf("type", "bind", "tmpfs"), func(m *m) *string {
			return &m.Type
		})),
		fieldOf("source", "The host's file or directory, for a bind mount.", "source: /srv/data", absolutePath(),
			func(m *m) *string { return &m.Source }),
		required(fieldOf("target", "Its path inside the container.", "target: /data", absolutePath(),
			func(m *m) *string { return &m.Target })),
		fieldOf("read_only", "Mount it read-only.", "read_only: true", boolean(), func(m *m) *bool { return &m.ReadOnly }),
		fieldOf("size", "The size of a tmpfs.", "size: 64MiB", size(), func(m *m) *int64 { return &m.Size }),
	})
	return checked(v, func(r *reader, n yamldoc.Node, m *m) bool {
		switch {
		case m.Type == "bind" && m.Source == "":
			r.Fail(n.At, "a bind mount needs a source", "write source: /a/directory/of/the/host")
		case m.Type == "bind" && m.Size != 0:
			r.Fail(n.At, "a bind mount has no size", "only a tmpfs has one")
		case m.Type == "tmpfs" && m.Source != "":
			r.Fail(n.At, "a tmpfs has no source", "only a bind mount has one")
		default:
			return true
		}
		return false
	})
}

func port() value[bench.Port] {
	type p = bench.Port
	number := convert(count(1, 65535), func(n int64) uint16 { return uint16(n) })
	v := object("a port (a mapping with container)", []key[p]{
		required(
			fieldOf("container", "The port inside.", "container: 80", number, func(p *p) *uint16 { return &p.Container }),
		),
		fieldOf("host", "The port on the host's loopback. Default: chosen by the engine.", "host: 8080", number,
			func(p *p) *uint16 { return &p.Host }),
		fieldOf("protocol", "`tcp` (the default) or `udp`.", "protocol: udp", oneOf("protocol", "tcp", "udp"),
			func(p *p) *string { return &p.Protocol }),
	})
	return convert(v, func(p bench.Port) bench.Port {
		if p.Protocol == "" {
			p.Protocol = "tcp"
		}
		return p
	})
}

func engineSetting(name string, at yamldoc.Place) setting {
	return setting{path: "engine", at: at, text: name, apply: func(c *bench.Cell) { c.Engine = name }}
}

// engineKey names the engine of a cell.
func engineKey() specKey {
	name := identifier()
	return specKey{factor: true, bare: true, key: key[[]setting]{
		name: "engine", want: "the name of an engine", schema: name.schema, example: "engine: docker",
		doc: "What makes the container: a built-in engine, one of `engines`, or `native` for a plain process.",
		read: func(r *reader, n yamldoc.Node, out *[]setting) {
			e, ok := name.read(r, n)
			if !ok {
				return
			}
			*out = append(*out, engineSetting(e, n.At))
		},
	}}
}

// paramsKey sets options of the workload.
func paramsKey() key[[]setting] {
	v := named("a mapping of options to values", paramValue())
	return key[[]setting]{
		name: "params", doc: "Options of the workload. An option with several words, such as a sequence of operations, " +
			"may be a list.", example: "params: {size: 64}",
		want: v.want, schema: v.schema,
		read: func(r *reader, n yamldoc.Node, out *[]setting) {
			options, _ := v.read(r, n) // what is wrong with it has been noted
			for _, o := range options {
				s := paramSetting(o.name, o.value.text, o.value.at)
				s.name, s.words = o.at, o.value.words
				*out = append(*out, s)
			}
		},
	}
}

// A paramText is the value of a workload's option, as it was written.
type paramText struct {
	text  string
	at    yamldoc.Place
	words []yamldoc.Place // where it was written as a list
}

// paramValue is the value of a workload's option: a word, or a list of words
// such as a sequence of operations, which the workload gets with commas.
func paramValue() value[paramText] {
	one := anyText()
	s := schema{"anyOf": []any{one.schema, schema{"type": "array", "items": one.schema, "minItems": 1}}}
	return value[paramText]{"text, or a list of words", s, func(r *reader, n yamldoc.Node) (paramText, bool) {
		if n.Kind != yamldoc.List {
			t, ok := one.read(r, n)
			return paramText{text: t, at: n.At}, ok
		}
		out := paramText{at: n.At}
		for _, item := range n.Items {
			out.words = append(out.words, item.At)
		}
		words, ok := listOf(one).read(r, n)
		for i, w := range words {
			if strings.Contains(w, ",") {
				r.Fail(n.Items[i].At, fmt.Sprintf("%s contains a comma, which separates the words of a list", yamldoc.Quote(w)), "")
				ok = false
			}
		}
		out.text = strings.Join(words, ",")
		return out, ok
	}}
}

// cellKeys are the keys of everything that describes cells: the engine, the
// workload's options, and spec's.
func cellKeys() []specKey {
	return append([]specKey{engineKey(), {key: paramsKey()}}, specKeys()...)
}

// plainKeys are the same without what is said of them as factors.
func plainKeys(keys []specKey) []key[[]setting] {
	out := make([]key[[]setting], len(keys))
	for i, k := range keys {
		out[i] = k.key
	}
	return out
}

// factorKey returns the key that gives plain levels to a factor of the name.
func factorKey(name string) (specKey, bool) {
	for _, k := range cellKeys() {
		if k.name == name && k.factor {
			return k, true
		}
	}
	return specKey{}, false
}

// factorNames are the factors that every workload has.
func factorNames() []string {
	var names []string
	for _, k := range cellKeys() {
		if k.factor {
			names = append(names, k.name)
		}
	}
	return names
}

// apply gives a cell every setting, later ones over earlier ones.
func apply(c *bench.Cell, settings ...[]setting) {
	for _, s := range slices.Concat(settings...) {
		s.apply(c)
	}
}
