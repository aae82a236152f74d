// Package network is the load of a network: a server that answers, and clients
// that measure round trips and throughput against it.
//
// A server listens on a TCP port and on the UDP port of the same number. Every
// TCP connection begins with a line that names the version and the token, and is
// answered with one:
//
//	tare-net 1 TOKEN control          or  tare-net 1 TOKEN stream KEY N
//	tare-net 1 ok                     or  tare-net 1 refused: WHY
//
// On a control connection the client opens one session after the other, with a
// line of JSON for each message; see request and answer. A session has a key of
// its own, and streams that join it: TCP connections, or UDP sockets whose first
// datagram is a knock with that key. Nobody without the token learns a key, and
// what comes without is not answered.
//
// What is measured uses raw system calls on threads of their own, allocates
// nothing, and runs without a garbage collector.
package network

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// Version is that of the protocol between client and server.
const Version = 1

// TokenVariable is the variable of the environment that holds the token which
// client and server share: on a command line, every user of a host could read it.
const TokenVariable = "TARE_NET_TOKEN"

// joinLimit is the longest time for the streams of a session to join it,
// knockLimit that for one datagram to get through, so that the client gives up
// before the server does, and replyLimit that for one message to be answered.
const (
	joinLimit  = 5 * time.Second
	knockLimit = 3 * time.Second
	replyLimit = 5 * time.Second
)

// The errors of a client, which wrap what the system said.
var (
	ErrUnreachable = errors.New("the server cannot be reached")
	ErrRefused     = errors.New("the server refused")
	ErrVersion     = errors.New("the server speaks another version of the protocol")
	ErrForeign     = errors.New("what answers is not tare's server")
	ErrGone        = errors.New("the server is gone")
)

// token reads the token from the environment.
func token() (string, error) {
	t := os.Getenv(TokenVariable)
	if !isToken(t) {
		return "", fmt.Errorf("%s is not a token: want 16 to 128 letters, digits, - or _", TokenVariable)
	}
	return t, nil
}

// isToken reports whether t is like a token: nothing that could be mistaken for
// a word of the protocol or a blank. It is no regular expression, since making
// one would be part of every start of the agent.
func isToken(t string) bool {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	return len(t) >= 16 && len(t) <= 128 && strings.Trim(t, letters) == ""
}
