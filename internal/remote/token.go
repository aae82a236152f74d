package remote

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
)

// The length of a token: 22 characters of base64 hold 128 bits.
const (
	leastToken = 22
	mostToken  = 256
)

// A Token is the secret that a server and its clients share. Printing one does
// not show it.
type Token struct{ secret string }

// NewToken makes a token of 130 random bits.
func NewToken() Token { return Token{rand.Text()} }

// ParseToken reads a token, with blanks around it. Its errors do not repeat it.
func ParseToken(text string) (Token, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return Token{}, errors.New("the token is empty")
	}
	if len(text) < leastToken || len(text) > mostToken {
		return Token{}, fmt.Errorf("a token of %d characters: want %d to %d random ones, as 'tare agent serve' makes them", len(text), leastToken, mostToken)
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return Token{}, errors.New("the token has characters that are not plain ASCII, or blanks in it")
	}
	return Token{text}, nil
}

// Reveal returns the token itself, to be shown once to who is to use it.
func (t Token) Reveal() string { return t.secret }

// String hides the token.
func (Token) String() string { return "(token)" }

// GoString hides the token.
func (Token) GoString() string { return "(token)" }

// A side is who proves to have the token. The proof of one is none of the other.
type side string

const (
	client side = "tare client"
	server side = "tare server"
)

// proof shows to who has the token that one has it too, on the one connection
// that binding names.
func (t Token) proof(who side, binding []byte) []byte {
	mac := hmac.New(sha256.New, []byte(t.secret))
	_, _ = mac.Write([]byte(who)) // a hash never fails
	_, _ = mac.Write(binding)
	return mac.Sum(nil)
}
