package archtest_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/tare-bench/tare/"

// allowed is the import table of ARCHITECTURE.md: what the code of each
// package may import, beside the standard library. "std" alone stands for
// nothing else. Patterns are those of path.Match; a module's name stands for
// all of its packages. Tests may import more.
var allowed = map[string][]string{
	"cmd/tare":                 {"internal/cli"},
	"cmd/tare-agent":           {"internal/agent"},
	"internal/agent":           {"internal/kernel/affinity", "internal/load", "internal/load/*", "golang.org/x/sys"},
	"internal/kernel/affinity": {"golang.org/x/sys"},
	"internal/load":            {"internal/load/turn", "internal/text/unit", "github.com/HdrHistogram/hdrhistogram-go"},
	"internal/load/turn":       {"golang.org/x/sys"},
	"internal/load/socket":     {"golang.org/x/sys"},
	"internal/load/client": {
		"internal/kernel/affinity", "internal/load/socket", "internal/load/turn", "golang.org/x/sys",
	},
	"internal/load/*": {
		"internal/kernel/affinity", "internal/load", "internal/load/client", "internal/load/socket", "internal/load/turn",
		"internal/text/unit", "internal/text/plain", "golang.org/x/sys",
	},
	"internal/load/https":                 {"internal/load/http"},
	"internal/load/postgrestls":           {"internal/load/postgres"},
	"internal/load/postgres/postgrestest": {"internal/load/postgres"},
	"internal/supervise": {
		"internal/kernel/affinity", "internal/bench", "internal/load", "internal/load/turn",
		"internal/agent", "internal/kernel/proc", "internal/kernel/cgroup", "internal/kernel/netpath",
		"internal/kernel/readback", "golang.org/x/sys",
	},
	"internal/archtest":                       {},
	"internal/bench":                          {},
	"internal/text/unit":                      {},
	"internal/text/plain":                     {},
	"internal/text/term":                      {"internal/text/plain", "golang.org/x/text"},
	"internal/analysis/stat":                  {"gonum.org/v1/gonum"},
	"internal/fleet/odd":                      {"internal/analysis/stat"},
	"internal/experiment/yamldoc":             {"internal/text/term", "internal/text/unit", "github.com/goccy/go-yaml"},
	"internal/experiment/yamldoc/yamldoctest": {"internal/experiment/yamldoc", "github.com/google/go-cmp"},
	"internal/experiment":                     {"internal/bench", "internal/text/unit", "internal/experiment/yamldoc"},
	"internal/experiment/bucketbench":         {"internal/experiment/yamldoc"},
	"internal/experiment/pgbenchtools":        {"internal/experiment/yamldoc"},
	"internal/experiment/schemagen":           {"internal/experiment"},
	"internal/schedule":                       {"internal/bench"},
	"internal/kernel/proc":                    {"golang.org/x/sys"},
	"internal/kernel/cgroup":                  {"internal/kernel/proc", "golang.org/x/sys"},
	"internal/kernel/cgroup/cgrouptest":       {"internal/kernel/cgroup", "internal/engine/enginetest"},
	"internal/kernel/host": {
		"internal/kernel/affinity", "internal/bench", "internal/kernel/proc", "internal/kernel/cgroup", "golang.org/x/sys",
	},
	"internal/engine/datadir":  {"internal/bench", "internal/kernel/proc", "internal/kernel/shm", "golang.org/x/sys"},
	"internal/kernel/shm":      {"internal/kernel/proc", "golang.org/x/sys"},
	"internal/kernel/seccomp":  {"internal/bench", "github.com/containerd/containerd", "github.com/opencontainers/runtime-spec"},
	"internal/kernel/userns":   {"internal/bench", "golang.org/x/sys"},
	"internal/kernel/readback": {"internal/bench", "internal/kernel/proc", "internal/kernel/cgroup", "golang.org/x/sys"},
	"internal/kernel/netpath": {
		"internal/bench", "internal/kernel/proc", "internal/kernel/readback",
		"internal/kernel/netns", "internal/kernel/netdev", "internal/text/plain",
		"github.com/vishvananda/netlink", "golang.org/x/sys",
	},
	"internal/kernel/netns": {"golang.org/x/sys"},
	"internal/kernel/hostns": {
		"internal/kernel/cgroup", "internal/kernel/netns", "internal/kernel/proc", "golang.org/x/sys",
	},
	"internal/kernel/bpf":       {"internal/bench", "github.com/cilium/ebpf", "golang.org/x/sys"},
	"internal/kernel/syscalls":  {"internal/bench", "internal/kernel/bpf", "github.com/cilium/ebpf", "golang.org/x/sys"},
	"internal/kernel/recording": {"internal/bench"},
	"internal/kernel/trace": {
		"internal/bench", "internal/kernel/bpf", "internal/kernel/proc", "internal/kernel/recording",
		"github.com/cilium/ebpf", "golang.org/x/sys",
	},
	"internal/analysis/timeline": {"internal/bench", "internal/kernel/recording", "internal/analysis/stat"},
	"internal/kernel/netdev":     {"internal/bench", "internal/kernel/proc", "internal/kernel/netns", "github.com/vishvananda/netlink"},
	"internal/image": {
		"internal/bench", "internal/agent", "internal/image/pack", "github.com/google/go-containerregistry",
		"github.com/klauspost/compress", "golang.org/x/sys",
	},
	"internal/image/*":                     {"internal/image", "internal/agent"},
	"internal/image/imagetest":             {"github.com/google/go-containerregistry", "github.com/klauspost/compress"},
	"internal/image/inspect":               {"github.com/google/go-containerregistry"},
	"internal/image/pack":                  {"internal/bench"},
	"internal/image/registry":              {"internal/bench", "internal/image", "github.com/google/go-containerregistry"},
	"internal/image/registry/registrytest": {"internal/image/registry", "internal/image"},
	"internal/supervise/ready":             {"internal/bench", "internal/supervise"},
	"internal/supervise/capacity":          {"internal/bench"},
	"internal/engine/stdstream":            {},
	"internal/remote":                      {"internal/bench", "internal/remote/peer"},
	"internal/remote/peer":                 {"internal/bench"},
	"internal/engine/*": {
		"internal/bench", "internal/image", "internal/agent",
		"internal/kernel/cgroup", "internal/kernel/proc", "internal/kernel/readback", "internal/engine/datadir",
		"internal/kernel/seccomp", "internal/kernel/userns", "internal/kernel/netpath", "internal/kernel/netns",
		"internal/kernel/netdev", "golang.org/x/sys",
	},
	"internal/engine/ocispec": {"internal/bench", "github.com/opencontainers/runtime-spec"},
	"internal/engine/owned":   {},
	"internal/engine/builder": {"internal/text/plain"},
	"internal/engine/oci": {
		"internal/engine/ocispec", "internal/engine/stdstream", "github.com/opencontainers/runtime-spec", "github.com/moby/sys",
		"github.com/containerd/containerd",
	},
	"internal/engine/docker": {
		"internal/engine/builder", "internal/engine/owned", "internal/engine/stdstream", "github.com/moby/moby", "github.com/containerd/errdefs",
		"github.com/docker/go-connections",
	},
	"internal/engine/floor":  {"internal/engine/stdstream"},
	"internal/engine/native": {"internal/engine/owned", "internal/engine/stdstream", "internal/image/pack"},
	"internal/engine/remote": {"internal/engine/stdstream", "internal/remote", "internal/remote/peer"},
	"internal/engine/podman": {
		"internal/engine/builder", "internal/engine/owned", "internal/engine/ocispec", "internal/engine/stdstream",
		"github.com/opencontainers/runtime-spec",
	},
	"internal/engine/containerd": {
		"internal/engine/builder", "internal/engine/owned", "internal/engine/ocispec", "internal/engine/stdstream",
		"github.com/containerd/containerd", "github.com/containerd/errdefs", "github.com/containerd/log",
		"github.com/sirupsen/logrus", "github.com/containerd/typeurl", "github.com/opencontainers/runtime-spec",
		"github.com/opencontainers/image-spec", "google.golang.org/grpc",
	},
	"internal/engine/cri": {
		"internal/engine/owned", "internal/engine/stdstream",
		"github.com/containerd/containerd", "github.com/containerd/errdefs", "github.com/opencontainers/runtime-spec",
		"google.golang.org/grpc", "k8s.io/cri-api",
	},
	"internal/engine/kubernetes": {"internal/engine/owned", "internal/fleet/kube"},
	"internal/engine/enginetest": {
		"internal/analysis/stat", "internal/image/imagetest", "internal/image/registry", "internal/image/registry/registrytest",
		"github.com/google/go-cmp",
	},
	"internal/engine/apitest": {"internal/engine/enginetest"},
	"internal/workload/*": {
		"internal/kernel/affinity", "internal/bench", "internal/text/unit",
		"internal/text/plain", "internal/kernel/proc", "internal/kernel/cgroup", "internal/agent", "internal/load",
		"internal/load/*", "internal/supervise",
	},
	"internal/workload/compose": {"github.com/goccy/go-yaml"},
	"internal/workload/disk":    {"internal/foreign/fio"},
	"internal/workload/http": {
		"internal/image", "internal/kernel/netpath", "internal/supervise/capacity", "internal/foreign/ab",
	},
	"internal/workload/net": {"internal/kernel/netpath", "internal/foreign/iperf3"},
	"internal/workload/postgres": {
		"internal/image", "internal/kernel/netpath", "internal/supervise/capacity", "internal/foreign",
		"internal/foreign/pgbench", "internal/kernel/userns",
	},
	"internal/workload/pull":  {"internal/image", "internal/image/registry", "internal/supervise/ready"},
	"internal/workload/start": {"internal/image", "internal/kernel/netpath", "internal/supervise/ready"},
	"internal/workload/localtest": {
		"internal/engine/native", "internal/engine/docker", "internal/engine/enginetest", "internal/image/imagetest",
		"internal/kernel/readback", "golang.org/x/sys",
	},
	"internal/workload/workloadtest": {"internal/run", "internal/schedule", "internal/store/record"},
	"internal/fleet/kube":            {"internal/text/plain", "k8s.io/client-go", "golang.org/x/time"},
	"internal/fleet/kube/kubetest":   {"internal/fleet/kube"},
	"internal/fleet/podlog":          {"internal/fleet/pairs"},
	"internal/fleet/cluster": {
		"internal/fleet", "internal/fleet/kube", "internal/fleet/odd", "internal/fleet/pairs", "internal/fleet/podlog",
		"internal/text/unit", "github.com/goccy/go-yaml",
	},
	"internal/run":             {"internal/kernel/affinity", "internal/bench", "internal/schedule", "golang.org/x/sys"},
	"internal/store/record":    {"internal/bench", "internal/text/plain"},
	"internal/store/*":         {"internal/bench", "internal/store/record"},
	"internal/store/storetest": {"github.com/google/go-cmp"},
	"internal/store/sqlite":    {"modernc.org/sqlite"},
	"internal/analysis":        {"internal/bench", "internal/analysis/stat", "internal/text/unit", "internal/load"},
	"internal/analysis/analysistest": {
		"internal/bench", "internal/analysis", "internal/analysis/timeline", "internal/schedule", "internal/load",
	},
	"internal/report": {
		"internal/bench", "internal/analysis", "internal/analysis/timeline", "internal/text/unit", "internal/text/plain",
	},
	"internal/report/*": {
		"internal/bench", "internal/analysis", "internal/analysis/timeline", "internal/text/unit", "internal/text/plain",
		"internal/report",
	},
	"internal/report/text":    {"internal/text/term"},
	"internal/report/figure":  {"internal/text/term"},
	"internal/report/gate":    {"internal/text/term"},
	"internal/report/gobench": {"golang.org/x/perf"},
	"internal/report/html":    {"internal/report/figure"},
	"internal/report/fleet": {
		"internal/fleet", "internal/fleet/odd", "internal/fleet/pairs", "internal/report/html", "internal/text/term",
	},
	"internal/fleet":                {"internal/fleet/pairs"},
	"internal/fleet/pod":            {"internal/bench", "internal/fleet"},
	"internal/image/program":        {"internal/image/pack", "github.com/google/go-containerregistry"},
	"internal/fleet/pairs":          {"internal/analysis/stat"},
	"internal/fleet/trips":          {"internal/fleet/pairs", "golang.org/x/sys"},
	"internal/foreign":              {"internal/bench"},
	"internal/foreign/*":            {"internal/bench", "internal/foreign", "internal/load", "internal/text/unit"},
	"internal/foreign/pgbenchtools": {"internal/foreign/pgbench"},
	"internal/foreign/gobench":      {"golang.org/x/perf"},
	"internal/foreign/foreigntest":  {"internal/store/record", "github.com/google/go-cmp"},
	"internal/app": {
		"internal/text/*", "internal/kernel/*", "internal/store/record",
		"internal/experiment/*", "internal/analysis/*", "internal/*", "internal/engine/*", "internal/workload/*",
		"internal/store/*", "internal/report/*", "internal/foreign/*", "internal/remote/peer", "internal/fleet/*",
		"internal/image/program",
	},
	"internal/cli": {
		"internal/remote/peer", "internal/text/*", "internal/kernel/*", "internal/store/record", "internal/experiment/*",
		"internal/analysis/*", "internal/*", "internal/load/https", "internal/load/postgrestls", "internal/image/inspect",
		"internal/image/pack", "internal/image/program", "internal/fleet/*", "internal/report/fleet", "internal/cli/manual", "github.com/spf13/cobra", "github.com/spf13/pflag", "golang.org/x/term", "golang.org/x/sys",
	},
	"internal/cli/manual": {"internal/text/term", "github.com/spf13/cobra", "github.com/spf13/pflag"},
	"internal/cli/clidoc": {"internal/cli", "internal/cli/manual"},
}

// TestImports holds the code to the table, and the table to the code.
func TestImports(t *testing.T) {
	used := map[string]bool{}
	for pkg, files := range packages(t) {
		rules, ok := rulesFor(pkg, used)
		if !ok {
			t.Errorf("%s is not in the import table: add it to archtest and to ARCHITECTURE.md", pkg)
			continue
		}
		for name, file := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			for _, spec := range file.Imports {
				checkImport(t, pkg, name, strings.Trim(spec.Path.Value, `"`), rules)
			}
		}
	}
	for pattern := range allowed {
		if !used[pattern] {
			t.Errorf("the import table names %s, which does not exist", pattern)
		}
	}
}

// TestAdaptersDoNotKnowOneAnother is the table's most important consequence,
// said once more so that no edit of the table can lose it.
func TestAdaptersDoNotKnowOneAnother(t *testing.T) {
	shared := []string{ // what adapters are composed of, and no adapter itself
		"internal/engine/owned", "internal/engine/datadir", "internal/engine/ocispec",
		"internal/engine/stdstream", "internal/engine/builder", "internal/store/record",
	}
	for pkg, files := range packages(t) {
		for _, kind := range []string{"internal/engine/", "internal/workload/", "internal/store/"} {
			if !strings.HasPrefix(pkg, kind) {
				continue
			}
			for name, file := range files {
				for _, spec := range file.Imports {
					other, ours := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), module)
					if ours && strings.HasPrefix(other, kind) && other != pkg && !slices.Contains(shared, other) &&
						!strings.HasSuffix(other, "test") {
						t.Errorf("%s imports %s: adapters speak only the vocabulary", name, other)
					}
				}
			}
		}
	}
}

// TestPackageComments wants exactly one package comment in each package.
func TestPackageComments(t *testing.T) {
	for pkg, files := range packages(t) {
		var with []string
		code := false
		for name, file := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			code = true
			if file.Doc != nil {
				with = append(with, name)
			}
		}
		if code && len(with) != 1 {
			slices.Sort(with)
			t.Errorf("%s has %d package comments (%s), want one", pkg, len(with), strings.Join(with, ", "))
		}
	}
}

// TestNoInit refuses init functions: what runs is to be read where it is called.
func TestNoInit(t *testing.T) {
	for _, files := range packages(t) {
		for name, file := range files {
			for _, d := range file.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
					t.Errorf("%s has an init function: register by an explicit list instead", name)
				}
			}
		}
	}
}

// rulesFor joins the rules of every pattern that matches pkg.
func rulesFor(pkg string, used map[string]bool) (rules []string, ok bool) {
	for pattern, imports := range allowed {
		if match, err := path.Match(pattern, pkg); err == nil && match {
			used[pattern] = true
			rules, ok = append(rules, imports...), true
		}
	}
	return rules, ok
}

func checkImport(t *testing.T, pkg, file, imported string, rules []string) {
	t.Helper()
	first, _, _ := strings.Cut(imported, "/")
	if !strings.Contains(first, ".") {
		return // the standard library
	}
	ours, local := strings.CutPrefix(imported, module)
	for _, rule := range rules {
		match, err := path.Match(rule, ours)
		if local && err == nil && match || !local && (imported == rule || strings.HasPrefix(imported, rule+"/")) {
			return
		}
	}
	t.Errorf("%s imports %s, which %s may not: see the import table in ARCHITECTURE.md", file, imported, pkg)
}

// packages parses every Go file below the module's root, by package directory.
func packages(t *testing.T) map[string]map[string]*ast.File {
	t.Helper()
	const root = "../.."
	all := map[string]map[string]*ast.File{}
	err := filepath.WalkDir(root, func(name string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if base := d.Name(); rel != "." &&
				(strings.HasPrefix(base, ".") || base == "testdata" || base == "bin" || rel == "tools") {
				return filepath.SkipDir
			}
			return nil
		}
		dir := path.Dir(filepath.ToSlash(rel))
		if !strings.HasSuffix(name, ".go") || dir == "." {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		if all[dir] == nil {
			all[dir] = map[string]*ast.File{}
		}
		all[dir][rel] = file
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
