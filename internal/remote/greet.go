package remote

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// maxGreeting limits how much is read from a stranger, in bytes.
const maxGreeting = 1 << 10

// ErrToken means that the two sides have different tokens.
var ErrToken = errors.New("token rejected: use the token that 'tare agent serve' prints")

// ErrVersion means that the two sides have different versions of tare.
var ErrVersion = errors.New("the versions of tare differ: use the same version on both machines")

// ErrBusy means that the server already serves as many sessions as it may.
var ErrBusy = errors.New("the server is busy with another session: try again later")

// A hello is the client's first message.
type hello struct {
	Protocol int    `json:"protocol"`
	Version  string `json:"version"` // of tare
	Proof    []byte `json:"proof"`
}

// An answer is the server's reply. Only a client with the token learns the version, and that the
// server has the token too.
type answer struct {
	Protocol int     `json:"protocol"`
	Version  string  `json:"version,omitempty"`
	Proof    []byte  `json:"proof,omitempty"`
	Refused  refusal `json:"refused,omitempty"`
}

// A refusal is why a server does not admit a client.
type refusal string

const (
	wrongProtocol refusal = "protocol"
	wrongToken    refusal = "token"
	wrongVersion  refusal = "version"
	busy          refusal = "busy"
)

// tlsVersion is the lowest TLS version that either side accepts. Older ones have no exporter that
// is bound to the whole handshake.
const tlsVersion = tls.VersionTLS13

// bindingOf identifies a connection by a secret that only its two ends share (RFC 5705 and 9266).
// An attacker in the middle has two connections with different secrets, and so cannot forward a
// proof.
func bindingOf(conn *tls.Conn) ([]byte, error) {
	state := conn.ConnectionState()
	return state.ExportKeyingMaterial("EXPORTER-tare-remote", nil, 32)
}

// check returns why the server refuses the client; empty if it admits the client.
func (h hello) check(token Token, version string, binding []byte) refusal {
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
	return a.check(token, version, binding)
}

// check returns an error if the server's answer is not acceptable.
func (a answer) check(token Token, version string, binding []byte) error {
	switch a.Refused {
	case wrongProtocol:
		return fmt.Errorf("%w: tare %s here uses protocol %d, the server uses protocol %d", ErrVersion, version,
			protocol, a.Protocol)
	case wrongToken:
		return ErrToken
	case wrongVersion:
		return fmt.Errorf("%w: %s here, %.80q there", ErrVersion, version, a.Version)
	case busy:
		return ErrBusy
	}
	// A server that refuses need not prove anything, because it gets nothing.
	if a.Refused != "" || !hmac.Equal(a.Proof, token.proof(server, binding)) {
		return fmt.Errorf("%w: the server did not prove that it has the token", ErrToken)
	}
	return nil
}

// writeMessage sends the length in two bytes, and then the JSON.
func writeMessage(w io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(text) > maxGreeting {
		return fmt.Errorf("the greeting has %d bytes, but at most %d are allowed", len(text), maxGreeting)
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(text))), text...))
	return err
}

// readMessage reads what writeMessage has sent, and not a byte more. It ignores unknown fields,
// which later versions may add.
func readMessage(r io.Reader, v any) error {
	var size [2]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint16(size[:])
	if n == 0 || n > maxGreeting {
		return fmt.Errorf("not a greeting: it has %d bytes, not 1 to %d", n, maxGreeting)
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

// Limits on the length of a token: 22 characters of base64 have 128 bits.
const (
	minToken = 22
	maxToken = 256
)

// A Token is the secret that a server and its clients share. Printing a Token does not show the
// secret.
type Token struct{ secret string }

// NewToken makes a token of 130 random bits.
func NewToken() Token { return Token{rand.Text()} }

// ParseToken reads a token, and ignores blanks around it. Its errors do not contain the token.
func ParseToken(text string) (Token, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return Token{}, errors.New("the token is empty")
	}
	if len(text) < minToken || len(text) > maxToken {
		return Token{}, fmt.Errorf("the token has %d characters: use %d to %d random ones, such as 'tare agent serve' "+
			"makes", len(text), minToken, maxToken)
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return Token{}, errors.New("the token contains blanks or characters that are not ASCII")
	}
	return Token{text}, nil
}

// Reveal returns the secret, to show it once to the user.
func (t Token) Reveal() string { return t.secret }

// String hides the token.
func (Token) String() string { return "(token)" }

// GoString hides the token.
func (Token) GoString() string { return "(token)" }

// A side is the side that proves that it has the token. The proofs of the two sides differ.
type side string

const (
	client side = "tare client"
	server side = "tare server"
)

// proof proves to the other side that this one has the token too. It is valid only on the
// connection that binding identifies.
func (t Token) proof(who side, binding []byte) []byte {
	mac := hmac.New(sha256.New, []byte(t.secret))
	_, _ = mac.Write([]byte(who)) // a hash never fails
	_, _ = mac.Write(binding)
	return mac.Sum(nil)
}
