package compose

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tare-bench/tare/internal/bench"
)

// A program is a compose program of the user.
type program struct {
	name    string   // such as "docker compose"
	argv    []string // the program with its path, and arguments before those of compose
	env     []string
	version string
	client  bench.Engine // makes plain processes of the host

	project, file string

	last string // of what the last command has printed, quoted
}

// askTime is how long a program may take to answer what changes nothing.
const askTime = 20 * time.Second

// packages say where a program is to be had.
var packages = map[string]string{
	dockerPlugin:  "the package docker-compose-plugin or docker-compose-v2",
	dockerCompose: "the package docker-compose",
	podmanCompose: "the package podman-compose",
}

// findProgram finds the program that option tool names, or the first that an engine can be used with.
func findProgram(ctx context.Context, t bench.Task, how bench.Composing) (*program, error) {
	tool := t.Params["tool"]
	candidates := how.Programs
	if tool != anyProgram {
		candidates = []string{tool}
	}
	if tool != anyProgram && !slices.Contains(how.Programs, tool) {
		return nil, fmt.Errorf("%w: %s cannot use engine %s: use %s", bench.ErrUnsupported, tool, t.Engine.Name(),
			strings.Join(how.Programs, " or "))
	}
	var missing []string
	for _, name := range candidates {
		p := &program{name: name, client: t.Client, env: environment(how.Env)}
		err := p.find(ctx)
		if err == nil {
			return p, t.Client.Prepare(ctx, bench.Spec{Argv: p.argv})
		}
		if !errors.Is(err, bench.ErrUnsupported) {
			return nil, err
		}
		missing = append(missing, packages[name])
	}
	return nil, fmt.Errorf("%w: %s is not installed: install %s, or use tool bare", bench.ErrUnsupported,
		strings.Join(candidates, " or "), strings.Join(missing, " or "))
}

// environment is the user's own, without what would choose another project or engine, or services beside those that
// start without a profile. What is set here goes before what a file .env says.
func environment(more []string) []string {
	env := slices.DeleteFunc(os.Environ(), func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		return name == "COMPOSE_FILE" || name == "COMPOSE_PROJECT_NAME" || name == "DOCKER_CONTEXT" || name == "COMPOSE_PROFILES"
	})
	return append(append(env, "COMPOSE_PROFILES="), more...)
}

// find finds the program's file and version. The error wraps bench.ErrUnsupported if it is not here.
func (p *program) find(ctx context.Context) error {
	words := strings.Fields(p.name)
	path, err := exec.LookPath(words[0])
	if err != nil {
		return fmt.Errorf("%w: %w", bench.ErrUnsupported, err)
	}
	if path, err = filepath.Abs(path); err != nil {
		return err
	}
	p.argv = append([]string{path}, words[1:]...)
	text, err := p.ask(ctx, "version")
	if err != nil && len(words) > 1 && ctx.Err() == nil {
		return fmt.Errorf("%w: %w", bench.ErrUnsupported, err) // docker without the plugin
	}
	if err != nil {
		return err
	}
	p.version = versionIn(text)
	return nil
}

// version is "Docker Compose version v2.39.1", "docker-compose version 1.29.2, build unknown" or
// "podman-composer version  1.0.3", beside versions of other programs.
var version = regexp.MustCompile(`(?i)compose\w*\s+version:?\s+v?([0-9A-Za-z.+~-]{1,40})`)

func versionIn(text []byte) string {
	if found := version.FindSubmatch(text); found != nil {
		return string(found[1])
	}
	return "of unknown version"
}

// title is the program with its version.
func (p *program) title() string { return p.name + " " + p.version }

// use names the project and its file.
func (p *program) use(project, file string) { p.project, p.file = project, file }

// arguments are those of a command of the project.
func (p *program) arguments(command ...string) []string {
	return append([]string{"-p", p.project, "-f", p.file}, command...)
}

// ask runs a command that changes nothing, when nothing is measured, and returns its standard output.
func (p *program) ask(ctx context.Context, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	stdout, stderr := &ending{limit: maxFile + 1}, &ending{limit: maxPrinted}
	cmd := exec.CommandContext(ctx, p.argv[0], append(slices.Clone(p.argv[1:]), args...)...)
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = p.env, stdout, stderr, time.Second
	// A program that has ended well has printed everything, whoever holds its output still.
	if err := cmd.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return nil, fmt.Errorf("%s %s: %w%s", p.name, args[len(args)-1], bench.Because(ctx, err), stderr.quoted())
	}
	return stdout.text, nil
}

// config returns the file as the program understands it.
func (p *program) config(ctx context.Context) ([]byte, error) {
	text, err := p.ask(ctx, p.arguments("config")...)
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("compose file %s: with everything that it includes, it is larger than %d KiB", p.file, maxFile>>10)
	}
	return text, err
}

// run runs a command of the project as a step of a trial, until the program has ended. All that is left
// of the program is killed before run returns.
func (p *program) run(ctx context.Context, c bench.Clock, step string, command ...string) (bench.Span, error) {
	printed := &ending{limit: maxPrinted}
	spec := bench.Spec{Argv: append(slices.Clone(p.argv), p.arguments(command...)...), Env: p.env}
	process, err := p.client.Create(ctx, spec)
	if err != nil {
		return bench.Span{}, err
	}
	defer c.Cleanup(func(ctx context.Context) error { return bench.Dispose(ctx, p.client, process) })
	if err := process.Attach(ctx, printed, printed); err != nil {
		return bench.Span{}, err
	}
	span, err := c.Step(step, func() error {
		if err := process.Start(ctx); err != nil {
			return err
		}
		exit, err := process.Wait(ctx)
		if err == nil && exit != (bench.Exit{}) {
			err = errors.New(exit.String())
		}
		return bench.Because(ctx, err)
	})
	p.last = printed.quoted() + limitAdvice(printed.text)
	if op, ok := errors.AsType[*bench.OpError](err); ok {
		op.Err = fmt.Errorf("%s: %w%s", p.title(), op.Err, p.last)
	}
	return span, err
}

// limitAdvice says what to do if a runtime has said that it cannot set a resource limit, such as
// "setrlimit RLIMIT_NOFILE"; empty if it has not. It is appended to an error.
func limitAdvice(printed []byte) string {
	if !bytes.Contains(printed, []byte("RLIMIT_")) {
		return ""
	}
	return "; this machine does not let the engine set the resource limits that it gives every container: ask for lower " +
		"ones, with ulimits in the compose file or default_ulimits in containers.conf"
}

// up implements maker.
func (p *program) up(ctx context.Context, c bench.Clock) (bench.Span, error) {
	return p.run(ctx, c, Up, "up", "-d")
}

// down implements maker.
func (p *program) down(ctx context.Context, c bench.Clock) (bench.Span, error) {
	return p.run(ctx, c, Down, "down")
}

// maxPrinted is how much of a program's output is kept, in bytes.
const maxPrinted = 2 << 10

// ending keeps the end of what is printed, which may be read while more comes.
type ending struct {
	limit int

	mu   sync.Mutex
	text []byte
}

func (e *ending) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.text = append(e.text, p[max(0, len(p)-e.limit):]...)
	e.text = append(e.text[:0], e.text[max(0, len(e.text)-e.limit):]...)
	return len(p), nil
}

// quoted quotes the last lines, to be appended to an error.
func (e *ending) quoted() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return lastLines(e.text)
}

// shownLines is how many of the last lines an error has.
const shownLines = 4

// lastLines quotes the last lines of a text, to be appended to an error; empty if there are none.
func lastLines(text []byte) string {
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	last := bytes.TrimSpace(bytes.Join(lines[max(0, len(lines)-shownLines):], []byte("\n")))
	if len(last) == 0 {
		return ""
	}
	const most = 400
	return fmt.Sprintf("; it printed last %q", last[max(0, len(last)-most):])
}
