package remote

import (
	"crypto/hmac"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxGreeting bounds what a stranger is listened to.
const maxGreeting = 1 << 10

// ErrToken is wrapped by the error of a client, or server, whose token is
// another than the other side's.
var ErrToken = errors.New("the token is not the one of the other side")

// ErrVersion is wrapped by the error of two versions that do not go together.
var ErrVersion = errors.New("the versions of tare differ")

// ErrBusy is wrapped by the error of a server that has no room for a session.
var ErrBusy = errors.New("the server is at work for others")

// A hello is what the client says first.
type hello struct {
	Protocol int    `json:"protocol"`
	Version  string `json:"version"` // of tare
	Proof    []byte `json:"proof"`
}

// An answer is what the server says to it. Only who has the token learns the
// version, and that the server has it too.
type answer struct {
	Protocol int     `json:"protocol"`
	Version  string  `json:"version,omitempty"`
	Proof    []byte  `json:"proof,omitempty"`
	Refused  refusal `json:"refused,omitempty"`
}

// A refusal is why a server does not let a client in.
type refusal string

const (
	wrongProtocol refusal = "protocol"
	wrongToken    refusal = "token"
	wrongVersion  refusal = "version"
	noRoom        refusal = "busy"
)

// tlsVersion is the least that either side takes: older ones have no exporter
// that is bound to the whole handshake.
const tlsVersion = tls.VersionTLS13

// bindingOf names a connection by a secret that only its two ends share (RFC
// 5705 and 9266). Somebody in the middle has two connections, with one each, and
// so can pass on no proof.
func bindingOf(conn *tls.Conn) ([]byte, error) {
	state := conn.ConnectionState()
	return state.ExportKeyingMaterial("EXPORTER-tare-remote", nil, 32)
}

// examine says why a client is not let in; empty where it is.
func (h hello) examine(token Token, version string, binding []byte) refusal {
	switch {
	case h.Protocol != protocol:
		return wrongProtocol
	case !hmac.Equal(h.Proof, token.proof(client, binding)):
		return wrongToken
	case h.Version != version:
		return wrongVersion
	default:
		return ""
	}
}

// greet is the client's side of a greeting.
func greet(conn *tls.Conn, token Token, version string) error {
	binding, err := bindingOf(conn)
	if err != nil {
		return err
	}
	if err := writeMessage(conn, hello{protocol, version, token.proof(client, binding)}); err != nil {
		return err
	}
	var a answer
	if err := readMessage(conn, &a); err != nil {
		return fmt.Errorf("no answer to the greeting: %w", err)
	}
	return a.examine(token, version, binding)
}

// examine says what is wrong with the server's answer, or nil.
func (a answer) examine(token Token, version string, binding []byte) error {
	switch a.Refused {
	case wrongProtocol:
		return fmt.Errorf("%w: tare %s here speaks protocol %d, the server protocol %d", ErrVersion, version, protocol, a.Protocol)
	case wrongToken:
		return ErrToken
	case wrongVersion:
		return fmt.Errorf("%w: %s here, %.80q there", ErrVersion, version, a.Version)
	case noRoom:
		return ErrBusy
	}
	// Whoever refuses need prove nothing: it gets nothing.
	if a.Refused != "" || !hmac.Equal(a.Proof, token.proof(server, binding)) {
		return fmt.Errorf("%w: what answers does not prove to have it", ErrToken)
	}
	return nil
}

// writeMessage sends JSON after its length, two bytes.
func writeMessage(w io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(text) > maxGreeting {
		return fmt.Errorf("a greeting of %d bytes, at most %d are read", len(text), maxGreeting)
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(text))), text...))
	return err
}

// readMessage reads what writeMessage has sent, and not a byte more. Fields that
// it does not know are a later version's.
func readMessage(r io.Reader, v any) error {
	var size [2]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint16(size[:])
	if n == 0 || n > maxGreeting {
		return fmt.Errorf("not a greeting: %d bytes, want 1 to %d", n, maxGreeting)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("not a greeting: %w", err)
	}
	return nil
}
