package peer

import (
	"bufio"
	"errors"
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
	dir := t.TempDir()
	for name, test := range map[string]struct{ body, says string }{
		"silent": {"exec sleep 1000", "no answer in time"},
		"slow":   {`echo tare-host Linux $(uname -m) need x; sleep 1; echo tare-failed digest x`, "not the one"},
	} {
		ssh := filepath.Join(dir, name)
		if err := os.WriteFile(ssh, []byte("#!/bin/sh\n"+test.body+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err := Start(t.Context(), Target{
			Host: "there", SSH: ssh, Version: "v1", Role: "serve", Dir: "one", limit: 500 * time.Millisecond,
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
	all, err := openPrograms(ownProgram)
	if err != nil {
		t.Fatal(err)
	}
	defer all.close()
	if len(all) != 1 || all[runtime.GOARCH].size == 0 || all.digest("sparc") != "-" {
		t.Errorf("programs: %v, want the running one", all)
	}
	if _, err := openPrograms(func(string) (string, error) { return os.DevNull + "/x", nil }); err == nil {
		t.Error("a program that cannot be opened is no error")
	}
}
