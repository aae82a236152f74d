package network

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/tare-bench/tare/internal/text/plain"
)

const banner = "tare-net"

// maxLine is the largest length of a line of the protocol, in bytes.
const maxLine = 64 << 10

// maxHello is the largest length of the first line of a connection, and of its answer.
const maxHello = 256

// A hello is the first line of a connection, without its newline.
type hello struct {
	version int
	token   string
	stream  *streamID // nil: this is a control connection
}

// A streamID says which stream of which session a connection is.
type streamID struct {
	key   uint64
	index int
}

func (h hello) String() string {
	what := "control"
	if h.stream != nil {
		what = fmt.Sprintf("stream %016x %d", h.stream.key, h.stream.index)
	}
	return fmt.Sprintf("%s %d %s %s", banner, h.version, h.token, what)
}

var errHello = errors.New("not a client of tare")

// parseHello reads a first line. If the version is another one, it reads no further.
func parseHello(line string) (hello, error) {
	words := strings.Split(line, " ")
	if len(words) < 2 || words[0] != banner {
		return hello{}, errHello
	}
	version, err := strconv.Atoi(words[1])
	if err != nil || version < 1 {
		return hello{}, errHello
	}
	h := hello{version: version}
	if version != Version {
		return h, nil
	}
	switch {
	case len(words) == 4 && words[3] == "control":
	case len(words) == 6 && words[3] == "stream":
		h.stream = &streamID{}
		var errs [2]error
		h.stream.key, errs[0] = strconv.ParseUint(words[4], 16, 64)
		h.stream.index, errs[1] = strconv.Atoi(words[5])
		if errors.Join(errs[:]...) != nil {
			return hello{}, errHello
		}
	default:
		return hello{}, errHello
	}
	h.token = words[2]
	return h, nil
}

// check returns why a client is refused, or nil.
func (h hello) check(token string) error {
	switch {
	case h.version != Version:
		return fmt.Errorf("this server speaks version %d, the client %d: use the same version of tare on both sides",
			Version, h.version)
	case subtle.ConstantTimeCompare([]byte(h.token), []byte(token)) != 1:
		return errors.New("wrong token: this server was started with another one")
	default:
		return nil
	}
}

const (
	helloOK      = "ok"
	helloRefused = "refused: "
)

// replyTo returns the answer to a hello; err says why it is refused.
func replyTo(err error) string {
	what := helloOK
	if err != nil {
		what = helloRefused + err.Error()
	}
	return fmt.Sprintf("%s %d %s", banner, Version, what)
}

// parseReply returns the error that a server's answer stands for.
func parseReply(line string) error {
	rest, ok := strings.CutPrefix(line, banner+" ")
	number, what, found := strings.Cut(rest, " ")
	version, err := strconv.Atoi(number)
	why, refused := strings.CutPrefix(what, helloRefused)
	switch {
	case !ok || !found || err != nil || version < 1:
		return fmt.Errorf("%w: it said %.80q", ErrForeign, line)
	case refused:
		return fmt.Errorf("%w: %.200s", ErrRefused, plain.Line(why))
	case version != Version:
		return fmt.Errorf("%w: %d instead of %d", ErrVersion, version, Version)
	case what != helloOK:
		return fmt.Errorf("%w: it said %.80q", ErrForeign, line)
	default:
		return nil
	}
}
