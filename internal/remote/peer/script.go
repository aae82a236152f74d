package peer

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
)

// Lines that the script prints, and the program's greeting, begin with these words. Anything before
// the first one is what the login shell of the user prints.
const (
	hostLine   = "tare-host "   // what the machine is; whether the program is there; the directory
	copiedLine = "tare-copied " // the program is there now
	failedLine = "tare-failed " // what could not be done
	greetLine  = "tare-agent "  // the Greeting
)

// script brings tare up on another machine: $1 names the directory; $2 and $3 are the digests of the
// programs for amd64 and arm64, or "-"; $4 is the role. It uses only what POSIX has, sha256sum,
// head -c and test -O. It has no single quotes, backslashes, exclamation marks or line ends, so that every login
// shell passes it on unchanged. Whoever has the directory above, or a link in its place, could put another program
// where this one was checked, so that must be the login's own: XDG_CACHE_HOME may be shared. Whatever ends what it runs, or
// its connection, it cleans up: it does nothing upon the signals, which would end it, and its children have them as always.
const script = `set -u; umask 077; trap : HUP INT TERM PIPE; d="${XDG_CACHE_HOME:-$HOME/.cache}/tare/$1"; ` +
	`case "$(uname -m)" in x86_64|amd64) w=$2;; aarch64|arm64) w=$3;; *) w=-;; esac; ` +
	`drop() { { rm -f "$d/tare.part" "$d/tare"; rmdir "$d" "${d%/*}"; } 2>/dev/null; }; ` +
	`fail() { drop; echo "tare-failed $1 $d"; exit 1; }; ` +
	`foreign() { rmdir "$d" 2>/dev/null; echo "tare-failed owner ${d%/*}"; exit 1; }; ` +
	`sum() { sha256sum "$1" 2>/dev/null | cut -c 1-64; }; ` +
	`mkdir -p "$d" || fail mkdir; ` +
	`test -O "${d%/*}" && test -O "$d" || foreign; if test -h "${d%/*}"; then foreign; fi; ` +
	`command -v sha256sum >/dev/null || fail sha256sum; ` +
	`t=$(command -v tare); s=need; ` +
	`if test "$(sum "$d/tare")" = "$w"; then s=have; ` +
	`elif test -f "$t" && test "$(sum "$t")" = "$w" && cp "$t" "$d/tare" && chmod 700 "$d/tare"; then s=have; fi; ` +
	`echo "tare-host $(uname -s) $(uname -m) $s $d"; ` +
	`if test $s = need; then ` +
	`read -r k || fail unused; ` +
	`head -c "$k" >"$d/tare.part" || fail copy; ` +
	`test "$(sum "$d/tare.part")" = "$w" || fail digest; ` +
	`chmod 700 "$d/tare.part" && mv "$d/tare.part" "$d/tare" || fail copy; ` +
	`echo "tare-copied $d"; fi; ` +
	`"$d/tare" agent "$4"; c=$?; drop; exit $c`

// remoteCommand is the command for ssh, which the login shell of the user reads there.
func remoteCommand(t Target, offers programs) (string, error) {
	if err := bench.ValidRunID(t.Dir); err != nil {
		return "", err
	}
	words := []string{"sh", "-c", script, "tare", t.Dir, offers.digest("amd64"), offers.digest("arm64"), t.Role}
	for i, word := range words {
		quoted, err := quote(word)
		if err != nil {
			return "", err
		}
		words[i] = quoted
	}
	return strings.Join(words, " "), nil
}

// harmless are characters that no shell treats as special, wherever they are.
const harmless = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-"

// quote returns a word as a shell reads it: as it is, or in single quotes. It refuses what shells
// of different kinds read in different ways: line ends, NUL, and backslashes and exclamation marks,
// which fish and csh treat as special within single quotes.
func quote(word string) (string, error) {
	if strings.ContainsAny(word, "\x00\r\n\\!") {
		return "", fmt.Errorf("%.40q cannot be passed to every shell", word)
	}
	if word != "" && strings.Trim(word, harmless) == "" {
		return word, nil
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'", nil
}

// bringUp speaks with the script until the program has greeted. It calls copies before it copies a program of that
// size.
func (p *process) bringUp(t Target, offers programs, copies func(size int64)) (Greeting, error) {
	word, rest, err := p.nextLine(hostLine, failedLine, greetLine)
	if err == nil && word == hostLine {
		word, rest, err = p.copyProgram(t, offers, rest, copies)
	}
	switch {
	case err != nil:
		return Greeting{}, err
	case word == failedLine:
		return Greeting{}, scriptFailed(t.Host, rest)
	}
	return parseGreeting(t, rest)
}

// copyProgram gives the script the program that it needs, and returns the line that comes then.
func (p *process) copyProgram(
	t Target, offers programs, machine string, copies func(size int64),
) (word, rest string, err error) {
	words := strings.SplitN(machine, " ", 4)
	if len(words) != 4 {
		return "", "", errors.New("its answer is incomplete")
	}
	system, hardware, state, dir := words[0], words[1], words[2], words[3]
	arch := goArch(hardware)
	offer, ok := offers[arch]
	switch {
	case system != "Linux":
		return "", "", &Error{Host: t.Host, Kind: OtherSystem, Text: "it runs " + system + ", and tare needs Linux"}
	case !ok:
		return "", "", &Error{
			Host: t.Host, Kind: NoProgram, Arch: arch,
			Text: fmt.Sprintf("it is a machine of architecture %.40s, and there is no program of tare for that here", arch),
		}
	case offer.err != nil:
		return "", "", &Error{
			Host: t.Host, Kind: NoProgram, Arch: arch, err: offer.err,
			Text: fmt.Sprintf("it is a machine of architecture %.40s, and the program of tare for that cannot be used: %v",
				arch, offer.err),
		}
	case state == "have":
		p.doing = "started"
		return p.nextLine(failedLine, greetLine)
	}
	p.doing = "copied"
	copies(offer.size)
	if err := p.send(offer); err != nil {
		// The script says why it reads no more.
		if word, rest, lineErr := p.nextLine(failedLine); lineErr == nil {
			return word, rest, nil
		}
		return "", "", fmt.Errorf("the program could not be copied to %s: %w", dir, err)
	}
	if word, rest, err := p.nextLine(copiedLine, failedLine); err != nil || word == failedLine {
		return word, rest, err
	}
	p.doing = "started"
	return p.nextLine(failedLine, greetLine)
}

// scriptFailed is the error of what the script could not do.
func scriptFailed(host, line string) error {
	what, dir, _ := strings.Cut(line, " ")
	e := &Error{Host: host, Kind: NotCopied, Dir: dir}
	switch what {
	case "mkdir":
		e.Text = "the directory " + dir + " cannot be made"
	case "owner":
		e.Kind, e.Dir = ForeignDir, ""
		e.Text = "the directory " + dir + " belongs to somebody else, or is a link"
	case "sha256sum":
		e.Kind, e.Dir = NoSum, ""
		e.Text = "it has no program sha256sum, which checks the copied program"
	case "copy":
		e.Text = "the program cannot be copied to " + dir
	case "digest":
		e.Text = "the program that arrived in " + dir + " is not the one that was sent"
	default:
		e.Dir = ""
		e.Text = fmt.Sprintf("its script failed: %.100q", line)
	}
	return e
}
