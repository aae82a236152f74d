package postgres

import (
	"crypto/md5"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// The requests of an authentication message.
const (
	authOK           = 0
	authCleartext    = 3
	authMD5          = 5
	authSASL         = 10
	authSASLContinue = 11
	authSASLFinal    = 12
)

// ErrPassword is the error of a server that wants a password where none was given.
var ErrPassword = errors.New("the server wants a password: give one, or let it trust this client (pg_hba.conf)")

// A login is the part of a connection from the startup message until the server is ready.
type login struct {
	user, password string
	scram          *scram // nil = the server has not asked for it
	keys           *scramKeys
	passed         bool // the server has accepted this client
}

// answer reacts to a message. reply, if any, is to be sent; ready says that statements may follow.
func (l *login) answer(m message) (reply []byte, ready bool, err error) {
	switch m.kind {
	case fromAuthentication:
		reply, err = l.authenticate(m.body)
	case fromError:
		var refused *ServerError
		if refused, err = parseError(m.body); err == nil {
			err = refused
		}
	case fromReady:
		if !l.passed {
			err = protocolError("it is ready before it has accepted this client")
		}
		ready = err == nil
	case fromKeyData, fromNegotiateVersion:
	default:
		if !m.isComment() {
			err = m.unexpected("the login")
		}
	}
	return reply, ready, err
}

func (l *login) authenticate(body []byte) (reply []byte, err error) {
	if len(body) < 4 {
		return nil, protocolError("a wrong request for a password")
	}
	method, data := binary.BigEndian.Uint32(body), body[4:]
	if l.passed {
		return nil, protocolError("a request for a password from a client that was accepted")
	}
	if method != authOK && l.password == "" {
		return nil, ErrPassword
	}
	switch method {
	case authOK:
		if l.scram != nil && !l.scram.verified {
			return nil, protocolError("it accepts this client without a proof that it knows the password")
		}
		l.passed = true
		return nil, nil
	case authCleartext:
		return appendMessage(nil, toPassword, l.password+"\x00"), nil
	case authMD5:
		if len(data) != 4 {
			return nil, protocolError("a salt of %d bytes, want 4", len(data))
		}
		return appendMessage(nil, toPassword, md5Password(l.user, l.password, data)+"\x00"), nil
	case authSASL, authSASLContinue, authSASLFinal:
		return l.sasl(method, data)
	default:
		return nil, fmt.Errorf("the server wants method %d of authentication, which tare does not know: "+
			"use trust, password, md5 or scram-sha-256 in pg_hba.conf", method)
	}
}

func (l *login) sasl(method uint32, data []byte) (reply []byte, err error) {
	switch {
	case method == authSASL && l.scram == nil:
		if !strings.Contains("\x00"+string(data), "\x00"+scramName+"\x00") {
			return nil, fmt.Errorf("the server wants SASL by %.80q, tare knows only %s", data, scramName)
		}
		l.scram = newScram(l.password, l.keys)
		first := l.scram.first()
		p := append(open(nil, toPassword), scramName+"\x00"...)
		p = binary.BigEndian.AppendUint32(p, uint32(len(first)))
		return seal(append(p, first...), 0), nil
	case method == authSASLContinue && l.scram != nil:
		final, err := l.scram.final(string(data))
		return appendMessage(nil, toPassword, final), err
	case method == authSASLFinal && l.scram != nil:
		return nil, l.scram.verify(string(data))
	default:
		return nil, protocolError("a step of SASL out of order")
	}
}

// md5Password is PostgreSQL's answer to a request for an MD5 password.
func md5Password(user, password string, salt []byte) string {
	sum := func(text string) string {
		h := md5.Sum([]byte(text))
		return hex.EncodeToString(h[:])
	}
	return "md5" + sum(sum(password+user)+string(salt))
}
