// Package peer is tare on another machine. It starts tare there through the user's own ssh, and
// calls operations of it.
//
// The only connection is the one that ssh makes, with the user's configuration, keys and known
// hosts; tare opens nothing on the other machine. ssh runs one fixed command there, a script for
// sh. The script makes a private directory, takes this very program on its standard input unless the
// machine has it, checks the program's digest, and runs it. When the program ends, the script
// removes it. Machines whose owner lends only their engines run 'tare agent serve' instead of what
// ssh asks for, and need no copy.
//
// The program greets with one line. From then on both sides speak HTTP/2 over the process's standard
// input and output, for concurrent operations, cancellation, back pressure and keep-alive. An
// operation is a POST of JSON to "/" and its name, and answers with JSON or a stream.
//
// Neither side trusts the other: whatever it reads is bounded, and what it shows is made harmless
// by who shows it.
package peer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Limits of the time that tare waits for the other machine.
const (
	// dialTime limits how long it may take until the script has answered, and then until tare runs there.
	dialTime = time.Minute
	// copyRate is the slowest connection, in bytes per second, over which a program is copied in between.
	copyRate = 32 << 10
	// keepAliveTime is the silence after which a side asks the other for a sign of life, and then
	// the time limit for the answer.
	keepAliveTime = 10 * time.Second
	// writeTimeout is how long sending may be blocked before the connection counts as lost.
	writeTimeout = 30 * time.Second
	// endTime is how long tare waits for the other side to clean up and to end.
	endTime = time.Minute
	// lostTime is the same for ssh whose connection is lost.
	lostTime = 2 * time.Second
)

// A Target is a tare to be started on another machine.
type Target struct {
	// Host is a destination as ssh takes it: [USER@]HOST, a name from the user's configuration, or
	// ssh://[USER@]HOST[:PORT].
	Host string
	// SSH is the program that connects; empty = ssh in PATH.
	SSH string
	// Version is that of this tare.
	Version string
	// Role says what tare does there: 'tare agent ROLE' is run.
	Role string
	// Dir names the private directory there, in which the program lies. It is a valid run ID. One
	// with the same name that an earlier session left is used again.
	Dir string
	// Said is told each line that the process says on stderr, whatever it is; nil = nobody. Another
	// goroutine calls it.
	Said func(line string)

	limit time.Duration                              // in place of dialTime; 0 = that
	find  func(arch string) (path string, err error) // in place of ownProgram; nil = that
}

// CheckHost reports what is wrong with a destination.
func CheckHost(host string) error {
	odd := func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("\"'\\`$;&|<>(){}*?,", r) }
	switch {
	case host == "":
		return errors.New("no host is named")
	case len(host) > 255 || host[0] == '-' || strings.ContainsFunc(host, odd):
		return fmt.Errorf("%.80q is no host: write [USER@]HOST, as for ssh, or ssh://[USER@]HOST:PORT", host)
	}
	return nil
}

// Start starts tare on another machine. The error is an *Error if the machine or the connection is
// the reason.
func Start(ctx context.Context, t Target) (*Session, error) {
	if err := CheckHost(t.Host); err != nil {
		return nil, err
	}
	if t.find == nil {
		t.find = ownProgram
	}
	offers := openPrograms(t.find)
	defer offers.close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := cmp.Or(t.limit, dialTime)
	late := time.AfterFunc(limit, func() { cancel(context.DeadlineExceeded) })
	defer late.Stop()
	p, err := connect(t, offers)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, p.kill) // ends every read and write below
	defer stop()
	greeted, err := p.bringUp(t, offers, func(size int64) { late.Reset(limit + time.Duration(size)*time.Second/copyRate) })
	if err != nil {
		// What the process has said by now is often the only explanation.
		return nil, p.failure(ctx, t, err)
	}
	if !stop() {
		return nil, p.failure(ctx, t, context.Cause(ctx))
	}
	s, err := newSession(ctx, p, t.Host, greeted)
	if err != nil {
		return nil, p.failure(ctx, t, err)
	}
	return s, nil
}

// connect starts ssh with the script.
func connect(t Target, offers programs) (*process, error) {
	command, err := remoteCommand(t, offers)
	if err != nil {
		return nil, err
	}
	name := cmp.Or(t.SSH, "ssh")
	path, err := exec.LookPath(name)
	if err != nil {
		return nil, &Error{Host: t.Host, Kind: NoSSH, Text: err.Error(), err: err}
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	return startProcess(path, sshArgs(t.Host, command), t.Said)
}

// sshArgs are the arguments of ssh. They ask for nothing but a command: no terminal, no questions,
// and no forwarding, whatever the user's configuration has for interactive sessions.
func sshArgs(host, command string) []string {
	return []string{
		"-T", "-a", "-x",
		"-o", "BatchMode=yes",
		"-o", "ClearAllForwardings=yes",
		"-o", "ControlMaster=no", // one that is there already is used
		"-o", "RemoteCommand=none",
		"--", host, command,
	}
}

// A Greeting is the first that a program says.
type Greeting struct {
	Protocol int    `json:"protocol"`
	Version  string `json:"version"` // of tare
	Role     string `json:"role"`    // what it does
	// Address is the one of its machine to which the client connected, as its sshd sees it; invalid
	// if there is none.
	Address netip.Addr `json:"address,omitzero"`
}

// protocol grows whenever two versions of this package could misunderstand each other before they
// compare their versions of tare.
const protocol = 2

// AddressOf returns the address of this machine to which a client connected by ssh, from the
// variable SSH_CONNECTION that sshd sets; invalid if there is none.
func AddressOf(connection string) netip.Addr {
	words := strings.Fields(connection) // client, its port, server, its port
	if len(words) != 4 {
		return netip.Addr{}
	}
	a, _ := netip.ParseAddr(words[2]) // invalid in case of an error
	return a.WithZone("").Unmap()
}
