package peer

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// Every shell that is here reads a quoted word as it was.
func FuzzQuote(f *testing.F) {
	for _, word := range []string{"", "a", "a b", "it's", "'", `"$HOME"`, "`id`", "*", "~", "-n", "ü", "a\tb", "{a,b}", script} {
		f.Add(word)
	}
	var shells []string
	for _, name := range []string{"sh", "bash", "busybox", "zsh", "fish"} {
		if path, err := exec.LookPath(name); err == nil {
			shells = append(shells, path)
		}
	}
	f.Fuzz(func(t *testing.T, word string) {
		quoted, err := quote(word)
		if err != nil {
			if !strings.ContainsAny(word, "\x00\r\n\\!") {
				t.Errorf("%q is refused: %v", word, err)
			}
			return
		}
		for _, shell := range shells {
			args := []string{"-c", "printf %s. " + quoted}
			if strings.HasSuffix(shell, "busybox") {
				args = append([]string{"sh"}, args...)
			}
			out, err := exec.Command(shell, args...).CombinedOutput()
			if err != nil || string(out) != word+"." {
				t.Errorf("%s reads %q as %q: %v", shell, word, out, err)
			}
		}
	})
}

// The script can be passed through every shell.
func TestScriptIsHarmless(t *testing.T) {
	if strings.ContainsAny(script, "'\\!\r\n\x00") {
		t.Error("the script has characters that some shells treat as special within single quotes")
	}
}

// The user's configuration is used, but nothing of it that opens anything.
func TestSSHArgs(t *testing.T) {
	args := sshArgs("root@db1", "sh -c x")
	if got := args[len(args)-3:]; got[0] != "--" || got[1] != "root@db1" || got[2] != "sh -c x" {
		t.Errorf("the arguments end with %q", got)
	}
	all := strings.Join(args, " ")
	for _, want := range []string{"-T", "-a", "-x", "BatchMode=yes", "ClearAllForwardings=yes"} {
		if !strings.Contains(all, want) {
			t.Errorf("%q lacks %s", all, want)
		}
	}
	for _, no := range []string{"StrictHostKeyChecking", "UserKnownHostsFile", "-F", "-i "} {
		if strings.Contains(all, no) {
			t.Errorf("%q has %s, which is the user's", all, no)
		}
	}
}

// Whatever comes before a greeting is read within bounds.
func FuzzNextLine(f *testing.F) {
	f.Add([]byte("Welcome\ntare-agent {\"protocol\":2}\n"))
	f.Add([]byte("tare-host Linux x86_64 need /root/.cache/tare/one\n"))
	f.Add([]byte("tare-host "))
	f.Fuzz(func(t *testing.T, data []byte) {
		p := &process{buffer: bufio.NewReaderSize(strings.NewReader(string(data)), maxLine)}
		word, rest, err := p.nextLine(hostLine, greetLine)
		if err != nil {
			return
		}
		if !strings.Contains(string(data), word+rest) || strings.Contains(rest, "\n") {
			t.Errorf("read %q and %q", word, rest)
		}
		var e *Error
		if _, err := parseGreeting(Target{Version: "v1"}, rest); err != nil && errors.As(err, &e) && e.Kind != OtherVersion {
			t.Errorf("a greeting gives %v", err)
		}
	})
}

// A machine that does not answer is given up soon; one to which the program is copied gets the time for that.
func TestLimit(t *testing.T) {
	t.Parallel() // it waits
	dir := t.TempDir()
	for name, test := range map[string]struct {
		body, says string
		limit      time.Duration // for the first answer; 2 s are enough on a busy machine
	}{
		"silent": {"exec sleep 1000", "no answer in time", 500 * time.Millisecond},
		"silent while it is started": {
			"echo tare-host Linux $(uname -m) have x; exec sleep 1000", "no answer in time while tare was started",
			2 * time.Second,
		},
		"slow": {
			`echo tare-host Linux $(uname -m) need x; sleep 3; echo tare-failed digest x`, "not the one", 2 * time.Second,
		},
	} {
		ssh := filepath.Join(dir, name)
		if err := os.WriteFile(ssh, []byte("#!/bin/sh\n"+test.body+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err := Start(t.Context(), Target{
			Host: "there", SSH: ssh, Version: "v1", Role: "serve", Dir: "one", limit: test.limit,
		})
		if err == nil || !strings.Contains(err.Error(), test.says) || time.Since(began) > 30*time.Second {
			t.Errorf("%s: %v after %v, want %q", name, err, time.Since(began), test.says)
		}
	}
}

func TestAddressOf(t *testing.T) {
	for connection, want := range map[string]string{
		"192.0.2.9 50000 192.0.2.1 22":          "192.0.2.1",
		"2001:db8::9 50000 2001:db8::1 22":      "2001:db8::1",
		"::ffff:192.0.2.9 1 ::ffff:192.0.2.1 2": "192.0.2.1",
		"fe80::9%eth0 1 fe80::1%eth0 22":        "fe80::1",
		"":                                      "",
		"192.0.2.1":                             "",
		"a b c d":                               "",
	} {
		var expected netip.Addr
		if want != "" {
			expected = netip.MustParseAddr(want)
		}
		if got := AddressOf(connection); got != expected {
			t.Errorf("AddressOf(%q) = %v, want %v", connection, got, expected)
		}
	}
}

func TestOwnProgram(t *testing.T) {
	if path, err := ownProgram("sparc"); err == nil {
		t.Errorf("a program for sparc: %s", path)
	}
	all := openPrograms(ownProgram)
	defer all.close()
	if len(all) != 1 || all[runtime.GOARCH].size == 0 || all.digest("sparc") != "-" {
		t.Errorf("programs: %v, want the running one", all)
	}
	all = openPrograms(func(string) (string, error) { return os.DevNull + "/x", nil })
	defer all.close()
	if p := all[runtime.GOARCH]; p.err == nil || all.digest(runtime.GOARCH) != "-" {
		t.Errorf("a program that cannot be opened is %+v", p)
	}
}

// A network that goes away without a word ends the session on both sides, and what is being done ends
// with it.
func TestSilence(t *testing.T) {
	t.Parallel()                                       // it waits
	const alive, enough = 2 * time.Second, time.Minute // within alive, a busy machine answers too
	there, here := wire(t), wire(t)
	began, canceled, served := make(chan struct{}), make(chan struct{}), make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("POST /hold", func(_ http.ResponseWriter, r *http.Request) {
		close(began)
		<-r.Context().Done()
		close(canceled)
	})
	go func() {
		defer close(served)
		serveOne(context.Background(), &duplex{reader: there.out, in: there.out, out: here.in}, mux, alive)
	}()
	s, err := speak(t.Context(), "there", Greeting{}, &duplex{reader: here.out, in: here.out, out: there.in}, alive)
	if err != nil {
		t.Fatal(err)
	}
	called := make(chan error, 1)
	go func() { called <- s.Call(t.Context(), "hold", struct{}{}, nil) }()
	<-began
	time.Sleep(2 * alive) // both answer meanwhile
	if s.Err() != nil {
		t.Errorf("the session ends although both sides answer: %v", s.Err())
	}
	close(there.silent)
	close(here.silent)
	limit := time.After(enough)
	for what, ended := range map[string]<-chan struct{}{
		"the client's session": s.Lost(), "the server's": served, "what it was doing": canceled,
	} {
		select {
		case <-ended:
		case <-limit:
			t.Errorf("%s has not ended after %v of silence", what, enough)
		}
	}
	if err := <-called; err == nil {
		t.Error("a call succeeds although nobody has answered")
	}
}

// A line passes on what is written to in, where it can be read from out, until it is silent.
type line struct {
	in, out *os.File
	silent  chan struct{}
}

func wire(t *testing.T) line {
	t.Helper()
	from, in, err1 := os.Pipe()
	out, to, err2 := os.Pipe()
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	l := line{in, out, make(chan struct{})}
	passed := make(chan struct{})
	go func() {
		defer close(passed)
		buffer := make([]byte, 1<<10)
		for {
			n, err := from.Read(buffer)
			select {
			case <-l.silent:
				_, _ = io.Copy(io.Discard, from) // until its end
				return
			default:
			}
			if err != nil {
				return
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_, _ = in.Close(), out.Close() // the session may have closed them
		<-passed
		_, _ = from.Close(), to.Close() // the same
	})
	return l
}
