package peer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/remote/peer"
)

// testTimeout bounds what must not hang.
const testTimeout = time.Minute

// TestMain is also the program that is copied to the other machine, and a connection that ends after
// some bytes.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "cut" {
		n, err := strconv.ParseInt(os.Args[2], 10, 64)
		if err == nil {
			_, err = io.CopyN(os.Stdout, struct{ io.Reader }{os.Stdin}, n)
		}
		if err != nil {
			os.Exit(1)
		}
		return
	}
	if len(os.Args) == 3 && os.Args[1] == "agent" {
		if err := agent(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func agent(role string) error {
	if role == "dies" {
		return errors.New("this role dies")
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /where", func(w http.ResponseWriter, r *http.Request) {
		var ask struct{}
		err := peer.Read(w, r, 1<<10, &ask)
		own, ownErr := os.Executable()
		peer.Answer(w, "where", own, errors.Join(err, ownErr))
	})
	mux.HandleFunc("POST /refuse", func(w http.ResponseWriter, _ *http.Request) {
		peer.Answer(w, "refuse", nil, fmt.Errorf("%w: not here", bench.ErrUnsupported))
	})
	mux.HandleFunc("POST /flood", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.Copy(w, endless{}) // until the client has enough
	})
	mux.HandleFunc("POST /exit", func(http.ResponseWriter, *http.Request) { os.Exit(1) })
	in, out := peer.Stdio()
	g := peer.Greeting{Version: "v1", Role: role, Address: peer.AddressOf(os.Getenv("SSH_CONNECTION"))}
	return peer.Serve(context.Background(), in, out, g, mux)
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}

// A site is the other machine: a home, and an ssh that runs its command here.
type site struct {
	home string
	ssh  string
}

// newSite makes a machine. Body is what its ssh does; $command is what it is asked to run.
func newSite(t *testing.T, body string) site {
	t.Helper()
	dir := t.TempDir()
	s := site{filepath.Join(dir, "home"), filepath.Join(dir, "ssh")}
	text := "#!/bin/sh\nfor command; do :; done\nexport HOME=" + s.home +
		" SSH_CONNECTION='192.0.2.9 1 192.0.2.1 22'\nunset XDG_CACHE_HOME\n" + body + "\n"
	if err := errors.Join(os.Mkdir(s.home, 0o700), os.WriteFile(s.ssh, []byte(text), 0o700)); err != nil {
		t.Fatal(err)
	}
	return s
}

const runsIt = `exec sh -c "$command"`

func (s site) target() peer.Target {
	return peer.Target{Host: "there", SSH: s.ssh, Version: "v1", Role: "serve", Dir: "one"}
}

// left lists the files in the machine's home.
func (s site) left(t *testing.T) (files []string) {
	t.Helper()
	err := filepath.WalkDir(s.home, func(path string, d os.DirEntry, err error) error {
		switch {
		case errors.Is(err, os.ErrNotExist):
			return nil // it is just being removed
		case err == nil && path != s.home && d.Name() != ".cache":
			files = append(files, strings.TrimPrefix(path, s.home))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// becomesEmpty waits until nothing is on the machine but what a test has put there.
func (s site) becomesEmpty(t *testing.T) {
	t.Helper()
	left := func() []string {
		return slices.DeleteFunc(s.left(t), func(file string) bool { return strings.HasPrefix(file, "/bin") })
	}
	for deadline := time.Now().Add(testTimeout); len(left()) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("left on the other machine: %q", left())
		}
	}
}

func TestStart(t *testing.T) {
	for name, body := range map[string]string{
		"a plain machine":       runsIt,
		"a login shell's words": "echo Welcome; echo tare-; head -c 5000 /dev/zero; echo; " + runsIt,
		"another login shell":   `exec bash -c "$command"`,
	} {
		t.Run(name, func(t *testing.T) {
			there := newSite(t, body)
			s, err := peer.Start(t.Context(), there.target())
			if err != nil {
				t.Fatal(err)
			}
			var where string
			if err := s.Call(t.Context(), "where", struct{}{}, &where); err != nil {
				t.Fatal(err)
			}
			if want := there.home + "/.cache/tare/one/tare"; where != want {
				t.Errorf("the program is %s, want %s", where, want)
			}
			if info, err := os.Stat(filepath.Dir(where)); err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("its directory: %v, %v; want one for its owner alone", info, err)
			}
			if want := netip.MustParseAddr("192.0.2.1"); s.Address() != want {
				t.Errorf("address %v, want %v", s.Address(), want)
			}
			if err := s.Call(t.Context(), "refuse", struct{}{}, nil); !errors.Is(err, bench.ErrUnsupported) ||
				!strings.Contains(err.Error(), "not here") {
				t.Errorf("a refusal arrives as %v", err)
			}
			if err := s.Call(t.Context(), "flood", struct{}{}, nil); err == nil || !strings.Contains(err.Error(), "more than") {
				t.Errorf("an endless answer: %v", err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if files := there.left(t); files != nil {
				t.Errorf("left on the other machine: %q", files)
			}
			if err := s.Call(t.Context(), "where", struct{}{}, nil); err == nil {
				t.Error("a call after the end succeeds")
			}
		})
	}
}

// A program that the machine has is not copied: neither one that an earlier session has left, nor
// the installed one.
func TestProgramIsThere(t *testing.T) {
	for name, put := range map[string]string{
		"left":      `mkdir -p "$HOME/.cache/tare/one"; cp /proc/%d/exe "$HOME/.cache/tare/one/tare";`,
		"installed": `mkdir "$HOME/bin"; cp /proc/%d/exe "$HOME/bin/tare"; PATH="$HOME/bin:$PATH";`,
	} {
		t.Run(name, func(t *testing.T) {
			there := newSite(t, fmt.Sprintf(put, os.Getpid())+` head() { echo copied >&2; exit 1; }; `+runsIt)
			s, err := peer.Start(t.Context(), there.target())
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if files := there.left(t); name == "left" && files != nil {
				t.Errorf("left on the other machine: %q", files)
			}
		})
	}
}

// A machine of another architecture gets the program for that.
func TestOtherArchitecture(t *testing.T) {
	own, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	hardware, arch := "aarch64", "arm64"
	if runtime.GOARCH == arch {
		hardware, arch = "x86_64", "amd64"
	}
	// It runs here, though its digest is another one.
	whole := append(own, "for "+arch...)
	file := filepath.Join(t.TempDir(), "tare")
	if err := os.WriteFile(file, whole, 0o700); err != nil {
		t.Fatal(err)
	}
	there := newSite(t, stub("uname", `case $1 in -s) echo Linux;; *) echo `+hardware+`;; esac`))
	target := there.target()
	target.SetProgram(arch, file)
	s, err := peer.Start(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	var where string
	if err := s.Call(t.Context(), "where", struct{}{}, &where); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(where); err != nil || !bytes.Equal(got, whole) {
		t.Errorf("a machine with %s runs a program of %d bytes, want the one of %d for %s: %v", hardware, len(got),
			len(whole), arch, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if files := there.left(t); len(files) != 2 { // of the stub
		t.Errorf("left on the other machine: %q", files)
	}
}

// A damaged program for an architecture stops only the machines that need it, and is named.
func TestDamagedProgram(t *testing.T) {
	arch, hardware := "arm64", "aarch64"
	if runtime.GOARCH == arch {
		arch, hardware = "amd64", "x86_64"
	}
	file := filepath.Join(t.TempDir(), "tare-linux-"+arch)
	start := func(there site) (*peer.Session, error) {
		target := there.target()
		target.SetDamaged(arch, errors.New(file+": bad magic number"))
		return peer.Start(t.Context(), target)
	}
	s, err := start(newSite(t, runsIt))
	if err != nil {
		t.Fatalf("a machine that does not need it: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	there := newSite(t, stub("uname", `case $1 in -s) echo Linux;; *) echo `+hardware+`;; esac`))
	var e *peer.Error
	want := "there: it is a machine of architecture " + arch + ", and the program of tare for that cannot be used: " + file
	if _, err = start(there); !errors.As(err, &e) || e.Kind != peer.NoProgram || e.Arch != arch ||
		!strings.HasPrefix(err.Error(), want) {
		t.Errorf("a machine that needs it: %v", err)
	}
	there.becomesEmpty(t)
}

// put puts a program of that name before the machine's own.
func put(name, body string) string {
	return fmt.Sprintf("mkdir -p $HOME/bin; printf '#!/bin/sh\\n%%s\\n' '%s' >$HOME/bin/%s; chmod 700 $HOME/bin/%s; "+
		"PATH=$HOME/bin:$PATH; ", body, name, name)
}

func stub(name, body string) string { return put(name, body) + runsIt }

// Whatever is wrong with the other machine, the error says where and what.
func TestStartFails(t *testing.T) {
	for name, test := range map[string]struct {
		body string
		kind peer.Kind
		says string
	}{
		"refused": {
			"echo 'ssh: connect to host there port 22: Connection refused' >&2; exit 255",
			peer.Unreachable, "there: ssh: connect to host there port 22: Connection refused",
		},
		"unknown key":    {"echo 'Host key verification failed.' >&2; exit 255", peer.Unreachable, "there: Host key verification failed."},
		"silent failure": {"exit 255", peer.Unreachable, "ssh failed without a word"},
		"no shell":       {"echo 'This account is not available'; exit 1", peer.NotStarted, "could not be started"},
		"endless words":  {"exec yes", peer.NotStarted, "something else than tare does"},
		"one long line":  {"exec cat /dev/zero", peer.NotStarted, "something else than tare does"},
		"other system":   {stub("uname", `case $1 in -s) echo FreeBSD;; *) echo x86_64;; esac`), peer.OtherSystem, "it runs FreeBSD"},
		"other hardware": {stub("uname", `case $1 in -s) echo Linux;; *) echo riscv64;; esac`), peer.NoProgram, "architecture riscv64"},
		"no program":     {stub("uname", `case $1 in -s) echo Linux;; *) echo aarch64;; esac`), peer.NoProgram, "architecture arm64"},
		"no space":       {stub("head", `echo "head: write error: No space left on device" >&2; exit 1`), peer.NotCopied, "No space left on device"},
		"a wrong copy":   {stub("head", `dd bs=1000 count=1 status=none`), peer.NotCopied, "not the one that was sent"},
		"no directory":   {"chmod 500 $HOME; export XDG_CACHE_HOME=/proc/none; " + runsIt, peer.NotCopied, "cannot be made"},
		"no sha256sum": {
			"mkdir -p $HOME/bin; for p in sh mkdir rmdir rm uname cut; do ln -s $(command -v $p) $HOME/bin/$p; done; " +
				"export PATH=$HOME/bin; " + runsIt,
			peer.NoSum, "it has no program sha256sum",
		},
		"cut while it is copied": {
			"echo tare-host Linux $(uname -m) need x; head -c 5000 >/dev/null; echo 'Connection reset' >&2; exit 255",
			peer.CutShort, "there: the connection was lost while tare was copied: Connection reset",
		},
		"cut while it is started": {
			"echo tare-host Linux $(uname -m) have x; exit 255", peer.CutShort, "the connection was lost while tare was started",
		},
		"another version": {`echo 'tare-agent {"protocol":2,"version":"v0"}'; cat`, peer.OtherVersion, `v1 here, "v0" there`},
		"another role":    {`echo 'tare-agent {"protocol":2,"version":"v1","role":"x"}'; cat`, peer.OtherRole, "'tare agent x'"},
		"no greeting":     {`echo 'tare-agent {'; cat`, peer.NotStarted, "not a greeting"},
		"a liar":          {`echo 'tare-host Linux'; cat`, peer.NotStarted, "incomplete"},
	} {
		t.Run(name, func(t *testing.T) {
			there := newSite(t, test.body)
			s, err := peer.Start(t.Context(), there.target())
			if err == nil {
				t.Fatal("the session begins", s.Close())
			}
			var e *peer.Error
			if !errors.As(err, &e) || e.Kind != test.kind || !strings.Contains(err.Error(), test.says) {
				t.Errorf("Start = %v, want kind %s and %q", err, test.kind, test.says)
			}
			there.becomesEmpty(t)
		})
	}
	if _, err := peer.Start(t.Context(), peer.Target{Host: "there", SSH: "/nowhere/ssh", Dir: "one", Role: "serve"}); err == nil {
		t.Error("an ssh that does not exist is no error")
	}
	there := newSite(t, runsIt)
	target := there.target()
	target.Role = "dies"
	if _, err := peer.Start(t.Context(), target); err == nil || !strings.Contains(err.Error(), "this role dies") {
		t.Errorf("a program that dies: %v, want its words", err)
	}
}

// Nothing is put into a directory that somebody else has made where the cache is shared.
func TestForeignDirectory(t *testing.T) {
	bodies := map[string]string{"a link": "mkdir $HOME/shared $HOME/else; ln -s ../else $HOME/shared/tare; "}
	if os.Geteuid() == 0 {
		bodies["somebody else's"] = "mkdir -p $HOME/shared/tare; chown 12345 $HOME/shared/tare; "
	}
	for name, body := range bodies {
		there := newSite(t, body+"export XDG_CACHE_HOME=$HOME/shared; "+runsIt)
		s, err := peer.Start(t.Context(), there.target())
		if err == nil {
			t.Fatal("the session begins", s.Close())
		}
		var e *peer.Error
		if !errors.As(err, &e) || e.Kind != peer.ForeignDir || !strings.Contains(err.Error(), "shared/tare belongs to somebody") {
			t.Errorf("%s: Start = %v", name, err)
		}
		for _, dir := range []string{"else", "shared/tare"} {
			if left, _ := filepath.Glob(filepath.Join(there.home, dir, "*")); left != nil {
				t.Errorf("%s: left there: %q", name, left)
			}
		}
	}
}

// A machine that says nothing is given up when the caller's time is over.
func TestSilentMachine(t *testing.T) {
	there := newSite(t, "exec sleep 1000")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := peer.Start(ctx, there.target())
	var e *peer.Error
	if !errors.As(err, &e) || e.Kind != peer.Unreachable || !strings.Contains(err.Error(), "no answer in time") {
		t.Errorf("Start = %v", err)
	}
}

// A connection that is cut at any instant is an error of the session, and nothing stays on the other
// machine.
func TestCut(t *testing.T) {
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(own)
	if err != nil {
		t.Fatal(err)
	}
	size := info.Size()
	cuts := 12
	if testing.Short() {
		cuts = 4
	}
	for i := range cuts {
		after := rand.Int64N(size + 4000)
		if i%2 == 1 {
			after = size + rand.Int64N(300) // in what follows the program
		}
		t.Run(strconv.FormatInt(after, 10), func(t *testing.T) {
			there := newSite(t, fmt.Sprintf(`%s cut %d | sh -c "$command"`, own, after))
			s, err := peer.Start(t.Context(), there.target())
			if err == nil {
				for range 100 {
					if err = s.Call(t.Context(), "where", struct{}{}, nil); err != nil {
						break
					}
				}
				_ = s.Close() // it is lost
			}
			if err == nil {
				t.Error("no error")
			}
			there.becomesEmpty(t)
		})
	}
}

// A tare that does not end on the other machine is told, unless the connection was lost before: that was told then.
func TestNotEnded(t *testing.T) {
	for name, test := range map[string]struct {
		after string // what ssh does when tare has ended
		lost  bool
		want  string
	}{
		"ends": {after: "exit 3"},
		"does not end": {
			after: "exec sleep 1000", want: "there: tare has not ended there: run 'tare clean' on that machine",
		},
		"lost, and so on": {after: "exec >&- sleep 1000", lost: true},
	} {
		t.Run(name, func(t *testing.T) {
			there := newSite(t, `sh -c "$command"; `+test.after)
			s, err := peer.Start(t.Context(), there.target())
			if err != nil {
				t.Fatal(err)
			}
			s.EndWithin(5 * time.Second)
			if test.lost {
				_ = s.Call(t.Context(), "exit", struct{}{}, nil) // it ends at once
				<-s.Lost()
			}
			got := ""
			if err := s.Close(); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("Close = %q, want %q", got, test.want)
			}
		})
	}
}

// A connection that takes nothing any more, as when sshd is gone, keeps nothing on the other machine.
func TestNobodyReads(t *testing.T) {
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const firstLine = ` | { read -r line; echo "$line"; }` // which then ends
	for name, body := range map[string]string{
		"the program arrives":  `sh -c "$command"` + firstLine,
		"a part of it arrives": own + ` cut 5000 | sh -c "$command"` + firstLine,
		"there is no space":    put("head", "exit 1") + `sh -c "$command"` + firstLine,
	} {
		t.Run(name, func(t *testing.T) {
			there := newSite(t, body)
			if s, err := peer.Start(t.Context(), there.target()); err == nil {
				t.Error("no error", s.Close())
			}
			there.becomesEmpty(t)
		})
	}
}

// A signal to the shell there, as of a login that ends, does not keep it from cleaning up.
func TestShellIsSignaled(t *testing.T) {
	head, err := exec.LookPath("head")
	if err != nil {
		t.Fatal(err)
	}
	for _, signal := range []string{"HUP", "TERM"} {
		there := newSite(t, put("head", fmt.Sprintf(`kill -%s $PPID; exec %s "$@"`, signal, head))+runsIt)
		s, err := peer.Start(t.Context(), there.target())
		if err == nil {
			err = s.Close()
		}
		if err != nil {
			t.Errorf("%s: %v", signal, err)
		}
		there.becomesEmpty(t)
	}
}

func TestCheckHost(t *testing.T) {
	for host, ok := range map[string]bool{
		"db1": true, "root@db1": true, "ssh://root@db1:2222": true, "192.0.2.1": true, "fe80::1%eth0": true,
		"": false, "-oProxyCommand=id": false, "a b": false, "a;id": false, "a,b": false, "$(id)": false, "ü": false,
		strings.Repeat("x", 300): false,
	} {
		if err := peer.CheckHost(host); (err == nil) != ok {
			t.Errorf("CheckHost(%q) = %v, want allowed: %v", host, err, ok)
		}
	}
}
