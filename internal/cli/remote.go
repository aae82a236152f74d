package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tare-bench/tare/internal/remote"
)

// tokenVariable has the token where no file is named.
const tokenVariable = "TARE_TOKEN"

// addTokenFlag adds the flag of commands that talk to another machine.
func (a *invocation) addTokenFlag(f *pflag.FlagSet) {
	f.StringVar(&a.tokenFile, "token-file", "",
		"`file` with the token that 'tare agent serve' printed (default: the token in $TARE_TOKEN)")
}

// token returns the token that the user has been given. No error repeats it.
func (a *invocation) token() (remote.Token, error) {
	text, err := a.env(tokenVariable), error(nil)
	if a.tokenFile != "" {
		text, err = readToken(a.tokenFile)
	}
	if err != nil {
		return remote.Token{}, err
	}
	t, err := remote.ParseToken(text)
	if err != nil {
		return t, &usageError{err, "put the token that 'tare agent serve' printed into $TARE_TOKEN, or into a file for " +
			"--token-file"}
	}
	return t, nil
}

// readToken reads a file that only its owner may read.
func readToken(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", &usageError{err, "--token-file needs a file that contains the token"}
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if others := info.Mode().Perm() & 0o077; others != 0 && info.Mode().IsRegular() {
		return "", &usageError{
			fmt.Errorf("%s: other users can read the token (mode %04o)", name, info.Mode().Perm()),
			"chmod 600 " + name,
		}
	}
	text, err := io.ReadAll(io.LimitReader(f, 4<<10))
	return string(text), err
}

// remoteHint says what to do about a session that does not begin.
func remoteHint(err error) string {
	var dial *net.OpError
	switch {
	case errors.As(err, &dial) && dial.Op == "dial" && strings.HasPrefix(dial.Net, "tcp"):
		return "check that 'tare agent serve' runs there, and that no firewall blocks its port"
	case errors.Is(err, remote.ErrToken):
		return "use the token that 'tare agent serve' printed there when it started"
	case errors.Is(err, remote.ErrVersion):
		return "install the same version of tare on both machines"
	case errors.Is(err, remote.ErrBusy):
		return "wait until the other run ends; 'tare agent serve --sessions N' allows several at a time"
	}
	return ""
}

// writeToken writes a token to a new file that only its owner may read.
func writeToken(name string, t remote.Token) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, t.Reveal())
	return errors.Join(err, f.Close())
}

// missingFile reports whether a file is not there.
func missingFile(name string) bool {
	_, err := os.Lstat(name)
	return errors.Is(err, fs.ErrNotExist)
}
