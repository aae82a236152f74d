package postgres

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strconv"
	"strings"
)

// scramName is the only SASL mechanism of PostgreSQL without TLS.
const scramName = "SCRAM-SHA-256"

// maxIterations bounds the work that a server can ask for; PostgreSQL asks for 4096.
const maxIterations = 1_000_000

// ErrServerProof is the error of a server that has accepted a client but does not know its password.
var ErrServerProof = errors.New("the server does not know the password: is it another server?")

// A scram is an exchange by SCRAM-SHA-256 (RFC 5802, RFC 7677) without channel binding. A password
// is taken as it is: without SASLprep, which changes only some characters beyond ASCII.
type scram struct {
	password string
	keys     *scramKeys
	nonce    string // of this client
	signed   string // all messages that both sides prove to have seen
	proven   bool   // this client has sent its proof
	verified bool   // the server has sent its own
}

// scramKeys keeps what a password gives together with a salt, which costs a millisecond and is the
// same for each connection.
type scramKeys struct {
	salt       string
	iterations int
	salted     []byte
}

func newScram(password string, keys *scramKeys) *scram {
	nonce := make([]byte, 18)
	_, _ = rand.Read(nonce) // never returns an error
	if keys == nil {
		keys = &scramKeys{}
	}
	return &scram{password: password, keys: keys, nonce: base64.StdEncoding.EncodeToString(nonce)}
}

// gs2 says that this client does not support channel binding.
const gs2 = "n,,"

// first is the client's first message. The user's name is in the startup message.
func (s *scram) first() string {
	bare := "n=,r=" + s.nonce
	s.signed = bare
	return gs2 + bare
}

// final answers the server's first message, r=NONCE,s=SALT,i=ITERATIONS.
func (s *scram) final(first string) (string, error) {
	wrong := protocolError("a wrong first message of SCRAM: %.80q", first)
	parts := strings.Split(first, ",")
	if len(parts) < 3 || s.proven {
		return "", wrong
	}
	nonce, ok1 := strings.CutPrefix(parts[0], "r=")
	salt64, ok2 := strings.CutPrefix(parts[1], "s=")
	count, ok3 := strings.CutPrefix(parts[2], "i=")
	salt, err1 := base64.StdEncoding.DecodeString(salt64)
	iterations, err2 := strconv.Atoi(count)
	if !ok1 || !ok2 || !ok3 || err1 != nil || err2 != nil || iterations < 1 || iterations > maxIterations ||
		!strings.HasPrefix(nonce, s.nonce) || len(nonce) == len(s.nonce) {
		return "", wrong
	}
	s.proven = true
	s.keys.derive(s.password, string(salt), iterations)
	withoutProof := "c=" + base64.StdEncoding.EncodeToString([]byte(gs2)) + ",r=" + nonce
	s.signed += "," + first + "," + withoutProof
	clientKey := keyed(s.keys.salted, "Client Key")
	storedKey := sha256.Sum256(clientKey)
	proof := keyed(storedKey[:], s.signed)
	subtle.XORBytes(proof, proof, clientKey)
	return withoutProof + ",p=" + base64.StdEncoding.EncodeToString(proof), nil
}

// verify checks the server's last message, v=SIGNATURE: that the server knows the password too.
func (s *scram) verify(last string) error {
	if !s.proven {
		return protocolError("a step of SASL out of order")
	}
	want := "v=" + base64.StdEncoding.EncodeToString(keyed(keyed(s.keys.salted, "Server Key"), s.signed))
	if !hmac.Equal([]byte(last), []byte(want)) {
		return ErrServerProof
	}
	s.verified = true
	return nil
}

// derive computes the salted password: PBKDF2 with one block (RFC 8018).
func (k *scramKeys) derive(password, salt string, iterations int) {
	if k.salted != nil && k.salt == salt && k.iterations == iterations {
		return
	}
	h := hmac.New(sha256.New, []byte(password))
	h.Write(binary.BigEndian.AppendUint32([]byte(salt), 1))
	round := h.Sum(nil)
	sum := append([]byte(nil), round...)
	for range iterations - 1 {
		h.Reset()
		h.Write(round)
		round = h.Sum(round[:0])
		subtle.XORBytes(sum, sum, round)
	}
	k.salt, k.iterations, k.salted = salt, iterations, sum
}

func keyed(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}
