package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tare-bench/tare/internal/remote/peer"
)

// sshVariable names the program that connects to other machines.
const sshVariable = "TARE_SSH"

// remoteSaid shows what another machine says beside its answers, to who wants all details.
func (a *invocation) remoteSaid(host, line string) {
	if a.global.Verbose {
		a.saying.Lock()
		defer a.saying.Unlock()
		a.notice("%s: %s", host, line)
	}
}

// otherPlace says how to have tare put its program elsewhere on another machine.
const otherPlace = "$XDG_CACHE_HOME of your login there chooses another place"

// notEnded tells of other machines on which tare has not ended; nil = none. What was measured is complete.
func (a *invocation) notEnded(err error) {
	if err != nil {
		a.notice("%v", err)
	}
}

// programDir is where the running program is.
func programDir() string {
	own, err := os.Executable()
	if err != nil {
		return "."
	}
	return filepath.Dir(own)
}

// peerHint says what to do about another machine that cannot be used.
func peerHint(err error) string {
	var e *peer.Error
	if !errors.As(err, &e) {
		return ""
	}
	switch e.Kind {
	case peer.NoSSH:
		return "install an ssh client, or name another program in $" + sshVariable
	case peer.Unreachable:
		return fmt.Sprintf("tare connects as 'ssh -o BatchMode=yes %s' does, which asks no questions: try that; accept the "+
			"machine's key once with 'ssh %s', and log in with a key that needs no password", e.Host, e.Host)
	case peer.CutShort:
		return "try again; a tare of this version in PATH there needs no copy"
	case peer.NoProgram:
		if e.Arch != "amd64" && e.Arch != "arm64" {
			return "tare runs on amd64 and arm64"
		}
		return fmt.Sprintf("put the program of the same version for it beside this one, as %s: 'make bin/%s' builds it",
			filepath.Join(programDir(), peer.ProgramName(e.Arch)), peer.ProgramName(e.Arch))
	case peer.NotCopied:
		if e.Dir == "" {
			return ""
		}
		return "check that there is space at " + e.Dir + " on that machine, and that you may write there; " +
			otherPlace
	case peer.NoSum:
		return "install coreutils on that machine"
	case peer.ForeignDir:
		return otherPlace
	case peer.NotStarted:
		return fmt.Sprintf("see what 'ssh %s sh -c id' prints: tare needs a login with a shell, and a file system that is "+
			"not mounted noexec ($XDG_CACHE_HOME of your login there chooses another), or a login that runs 'tare agent "+
			"serve'", e.Host)
	case peer.OtherRole:
		return "a login that only lends engines can be used with --remote, and not with --on"
	case peer.OtherVersion:
		return "install the same version of tare on both machines"
	}
	return ""
}
