package pack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The bounds of asking rpm.
const (
	rpmTime  = time.Minute
	rpmBatch = 500 // files or packages in one question: their names have to fit into a command line
)

// rpmDatabases are where rpm keeps one: newer and older.
var rpmDatabases = []string{"/usr/lib/sysimage/rpm", "/var/lib/rpm"}

// askRPM asks rpm which packages own files, named as names says, and says it by
// the files' paths.
func (t *tree) askRPM(ctx context.Context, names map[string]string) (owners map[string]string, known bool, err error) {
	program, err := exec.LookPath("rpm")
	if errors.Is(err, exec.ErrNotFound) || !t.hasRPM() {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, rpmTime)
	defer cancel()
	ask := func(arguments ...string) ([]byte, error) {
		return runRPM(ctx, program, append([]string{"--root", t.host.Root}, arguments...))
	}
	packages := map[string]bool{}
	for batch := range slices.Chunk(slices.Sorted(maps.Keys(names)), rpmBatch) {
		out, err := ask(append([]string{"-q", "--qf", `%{NVRA}\n`, "-f", "--"}, batch...)...)
		if err != nil {
			return nil, false, err
		}
		maps.Copy(packages, rpmPackages(out))
	}
	owners = map[string]string{}
	for batch := range slices.Chunk(slices.Sorted(maps.Keys(packages)), rpmBatch) {
		// One line for each file of each package.
		out, err := ask(append([]string{"-q", "--qf", `[%{=NAME}\t%{FILENAMES}\n]`, "--"}, batch...)...)
		if err != nil {
			return nil, false, err
		}
		rpmOwners(out, names, owners)
	}
	return owners, true, nil
}

func (t *tree) hasRPM() bool {
	return slices.ContainsFunc(rpmDatabases, func(dir string) bool {
		files, err := os.ReadDir(t.outside(dir))
		return err == nil && len(files) > 0
	})
}

// runRPM returns what rpm prints. That it fails is how it says that it does not
// know some of what it was asked for.
func runRPM(ctx context.Context, program string, arguments []string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, program, arguments...)
	cmd.Env = []string{"LC_ALL=C", "PATH=" + SearchPath}
	cmd.WaitDelay = time.Second
	out := &bounded{most: maxList}
	cmd.Stdout = out
	err := cmd.Run()
	var status *exec.ExitError
	switch {
	case out.over:
		return nil, fmt.Errorf("%s prints more than %d bytes", program, maxList)
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%s: %w", program, context.Cause(ctx))
	case err != nil && !errors.As(err, &status):
		return nil, &fs.PathError{Op: "run", Path: program, Err: err}
	}
	return out.buffer.Bytes(), nil
}

// bounded is a buffer that has an end. It has no other method of a buffer's: who
// copies would find one that knows no bound.
type bounded struct {
	buffer bytes.Buffer
	most   int
	over   bool
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.buffer.Len()+len(p) > b.most {
		b.over = true
		return 0, errors.New("too much")
	}
	return b.buffer.Write(p)
}

// rpmPackages reads the names of packages, a line for each. A line of several
// words says what rpm does not know.
func rpmPackages(out []byte) map[string]bool {
	packages := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.ContainsAny(line, " \t") && !strings.HasPrefix(line, "-") && !filepath.IsAbs(line) {
			packages[line] = true
		}
	}
	return packages
}

// rpmOwners reads lines of a package and one of its files, and adds those that
// are among names.
func rpmOwners(out []byte, names, owners map[string]string) {
	for line := range strings.Lines(string(out)) {
		name, file, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if path, wanted := names[file]; ok && wanted {
			owners[path] = name
		}
	}
}
