// Package network is the load of a network: a server, and clients that measure round trips
// and throughput against it.
//
// A server listens on a TCP port and on the UDP port of the same number. Every TCP
// connection begins with a line that has the version and the token; the server answers
// with a line:
//
//	tare-net 1 TOKEN control          or  tare-net 1 TOKEN stream KEY N
//	tare-net 1 ok                     or  tare-net 1 refused: WHY
//
// On a control connection, the client opens one session after the other. Each message is
// a line of JSON; see request and answer. A session has its own key, and streams that join
// it: TCP connections, or UDP sockets whose first datagram is a knock with that key.
// Without the token a client does not learn a key, and without a key it gets no answer.
//
// The measured code makes raw system calls on threads of its own, allocates nothing, and
// runs without a garbage collector.
package network

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// Version is the version of the protocol between client and server.
const Version = 1

// TokenVariable is the environment variable with the token that client and server share.
// On a command line, every user of the host could read the token.
const TokenVariable = "TARE_NET_TOKEN"

// joinLimit is the time limit for the streams of a session to join it. knockLimit is that
// for one datagram to arrive; it is shorter, so that the client gives up before the server.
// replyLimit is that for the answer to a message.
const (
	joinLimit  = 5 * time.Second
	knockLimit = 3 * time.Second
	replyLimit = 5 * time.Second
)

// The errors of a client, which wrap the system's error.
var (
	ErrUnreachable = errors.New("the server cannot be reached")
	ErrRefused     = errors.New("the server refused")
	ErrVersion     = errors.New("the server speaks another version of the protocol")
	ErrForeign     = errors.New("the other side is not tare's server")
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

// isToken reports whether t has the form of a token, without blanks or characters with a
// meaning in the protocol. It does not use a regular expression, which would be compiled
// at every start of the agent.
func isToken(t string) bool {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	return len(t) >= 16 && len(t) <= 128 && strings.Trim(t, letters) == ""
}
