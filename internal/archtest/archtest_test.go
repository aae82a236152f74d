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
	"cmd/tare":                       {"internal/cli"},
	"cmd/tare-agent":                 {"internal/agent"},
	"internal/agent":                 {"internal/affinity", "internal/load", "internal/load/*"},
	"internal/affinity":              {"golang.org/x/sys"},
	"internal/load":                  {"internal/unit", "github.com/HdrHistogram/hdrhistogram-go"},
	"internal/load/*":                {"internal/affinity", "internal/load", "internal/unit", "internal/plain", "golang.org/x/sys"},
	"internal/load/https":            {"internal/load/http"},
	"internal/party":                 {"internal/affinity", "internal/bench", "internal/load", "internal/agent", "internal/proc", "internal/cgroup", "internal/netpath", "golang.org/x/sys"},
	"internal/archtest":              {},
	"internal/bench":                 {},
	"internal/unit":                  {},
	"internal/plain":                 {},
	"internal/term":                  {"internal/plain", "golang.org/x/text"},
	"internal/stat":                  {"gonum.org/v1/gonum"},
	"internal/stat/*":                {"internal/stat", "gonum.org/v1/gonum"},
	"internal/yamldoc":               {"internal/term", "github.com/goccy/go-yaml"},
	"internal/yamldoc/yamldoctest":   {"internal/yamldoc", "github.com/google/go-cmp"},
	"internal/experiment":            {"internal/bench", "internal/unit", "internal/yamldoc"},
	"internal/bucketbench":           {"internal/unit", "internal/yamldoc"},
	"internal/apachebench":           {"internal/load"},
	"internal/experiment/schemagen":  {"internal/experiment"},
	"internal/schedule":              {"internal/bench"},
	"internal/proc":                  {"golang.org/x/sys"},
	"internal/cgroup":                {"internal/proc", "golang.org/x/sys"},
	"internal/cgroup/cgrouptest":     {"internal/cgroup", "internal/engine/enginetest"},
	"internal/host":                  {"internal/affinity", "internal/bench", "internal/proc", "internal/cgroup", "golang.org/x/sys"},
	"internal/datadir":               {"internal/bench", "internal/proc", "golang.org/x/sys"},
	"internal/seccomp":               {"internal/bench", "github.com/containerd/containerd", "github.com/opencontainers/runtime-spec"},
	"internal/userns":                {"internal/bench", "golang.org/x/sys"},
	"internal/readback":              {"internal/bench", "internal/proc", "internal/cgroup", "golang.org/x/sys"},
	"internal/netpath":               {"internal/bench", "internal/proc", "internal/readback", "internal/netns", "internal/netdev", "internal/plain", "github.com/vishvananda/netlink", "golang.org/x/sys"},
	"internal/netns":                 {"golang.org/x/sys"},
	"internal/syscalls":              {"internal/bench", "github.com/cilium/ebpf", "golang.org/x/sys"},
	"internal/netdev":                {"internal/bench", "internal/proc", "internal/netns", "github.com/vishvananda/netlink"},
	"internal/image":                 {"internal/bench", "internal/agent", "internal/image/pack", "github.com/google/go-containerregistry", "github.com/klauspost/compress", "golang.org/x/sys"},
	"internal/image/*":               {"internal/image", "internal/agent"},
	"internal/image/imagetest":       {"github.com/google/go-containerregistry", "github.com/klauspost/compress"},
	"internal/image/inspect":         {"github.com/google/go-containerregistry"},
	"internal/image/pack":            {"internal/bench"},
	"internal/registry":              {"internal/bench", "internal/image", "github.com/google/go-containerregistry"},
	"internal/registry/registrytest": {"internal/registry", "internal/image"},
	"internal/ready":                 {"internal/bench", "internal/party"},
	"internal/stdstream":             {},
	"internal/remote":                {"internal/bench"},
	"internal/engine/*":              {"internal/bench", "internal/image", "internal/agent", "internal/cgroup", "internal/proc", "internal/readback", "internal/datadir", "internal/seccomp", "internal/userns", "internal/netpath", "internal/netns", "internal/netdev", "golang.org/x/sys"},
	"internal/engine/owned":          {},
	"internal/engine/oci":            {"github.com/opencontainers/runtime-spec"},
	"internal/engine/docker":         {"internal/engine/owned", "internal/stdstream", "github.com/moby/moby", "github.com/containerd/errdefs", "github.com/docker/go-connections"},
	"internal/engine/remote":         {"internal/stdstream", "internal/remote"},
	"internal/engine/podman":         {"internal/engine/owned", "internal/stdstream"},
	"internal/engine/containerd":     {"internal/engine/owned", "github.com/containerd/containerd", "github.com/containerd/errdefs", "github.com/containerd/log", "github.com/sirupsen/logrus", "github.com/containerd/typeurl", "github.com/opencontainers/runtime-spec", "github.com/opencontainers/image-spec", "google.golang.org/grpc"},
	"internal/engine/cri":            {"internal/engine/owned", "github.com/containerd/containerd", "github.com/containerd/errdefs", "github.com/opencontainers/runtime-spec", "google.golang.org/grpc", "k8s.io/cri-api"},
	"internal/engine/enginetest":     {"internal/image/imagetest", "internal/registry", "internal/registry/registrytest", "github.com/google/go-cmp"},
	"internal/engine/apitest":        {"internal/engine/enginetest"},
	"internal/workload/*":            {"internal/affinity", "internal/bench", "internal/unit", "internal/proc", "internal/cgroup", "internal/agent", "internal/load", "internal/load/*", "internal/party"},
	"internal/workload/http":         {"internal/image", "internal/netpath"},
	"internal/workload/net":          {"internal/netpath"},
	"internal/workload/pull":         {"internal/image", "internal/registry", "internal/ready"},
	"internal/workload/start":        {"internal/image", "internal/netpath", "internal/ready"},
	"internal/workload/localtest":    {"internal/engine/native", "internal/engine/docker", "internal/engine/enginetest", "internal/image/imagetest"},
	"internal/workload/workloadtest": {"internal/run", "internal/schedule", "internal/store/storetest"},
	"internal/run":                   {"internal/affinity", "internal/bench", "internal/schedule", "golang.org/x/sys"},
	"internal/record":                {"internal/bench", "internal/plain"},
	"internal/store/*":               {"internal/bench", "internal/record"},
	"internal/store/storetest":       {"github.com/google/go-cmp"},
	"internal/store/sqlite":          {"modernc.org/sqlite"},
	"internal/analysis":              {"internal/bench", "internal/stat", "internal/unit"},
	"internal/analysis/analysistest": {"internal/bench", "internal/analysis", "internal/schedule", "internal/stat/simulate"},
	"internal/report":                {"internal/bench", "internal/analysis", "internal/unit", "internal/plain"},
	"internal/report/*":              {"internal/bench", "internal/analysis", "internal/unit", "internal/plain", "internal/report"},
	"internal/report/text":           {"internal/term"},
	"internal/report/gobench":        {"golang.org/x/perf"},
	"internal/app":                   {"internal/*", "internal/engine/*", "internal/workload/*", "internal/store/*", "internal/report/*"},
	"internal/cli":                   {"internal/*", "internal/load/https", "internal/workload/http", "internal/workload/lifecycle", "internal/image/inspect", "internal/image/pack", "github.com/spf13/cobra", "github.com/spf13/pflag", "golang.org/x/term", "golang.org/x/sys"},
	"internal/cli/*":                 {"internal/cli", "github.com/spf13/cobra"},
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
	const shared = "internal/engine/owned" // what some drivers are composed of, and no driver
	for pkg, files := range packages(t) {
		for _, kind := range []string{"internal/engine/", "internal/workload/", "internal/store/"} {
			if !strings.HasPrefix(pkg, kind) {
				continue
			}
			for name, file := range files {
				for _, spec := range file.Imports {
					other, ours := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), module)
					if ours && strings.HasPrefix(other, kind) && other != pkg && other != shared && !strings.HasSuffix(other, "test") {
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
			if base := d.Name(); rel != "." && (strings.HasPrefix(base, ".") || base == "testdata" || base == "bin" || rel == "tools") {
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
