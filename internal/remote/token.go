package remote

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
)

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
