package remote_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"io"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/remote"
)

// certificate is one that anybody can make.
func certificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// Who has another token, version or protocol is told so, and gets no further.
func TestRefused(t *testing.T) {
	l := newTestServer(t, enginetest.FakeConfig{}, nil)
	for name, test := range map[string]struct {
		edit func(*remote.Target)
		kind error
		says []string
	}{
		"token":   {func(r *remote.Target) { r.Token = remote.NewToken() }, remote.ErrToken, []string{l.address}},
		"version": {func(r *remote.Target) { r.Version = "v2" }, remote.ErrVersion, []string{"v2 here", `"v1" there`}},
	} {
		t.Run(name, func(t *testing.T) {
			target := l.target
			test.edit(&target)
			s, err := remote.Dial(t.Context(), target)
			if err == nil {
				t.Fatal("the session begins", s.Close())
			}
			if !errors.Is(err, test.kind) {
				t.Errorf("Dial = %v, want %v", err, test.kind)
			}
			for _, part := range test.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("Dial = %v, which lacks %q", err, part)
				}
			}
			if strings.Contains(err.Error(), target.Token.Reveal()) || l.logged(target.Token.Reveal()) ||
				l.logged(l.target.Token.Reveal()) {
				t.Error("a token is in an error or in the log")
			}
		})
	}
	l.dial(t) // and one that is right comes in
}

// A server that has not the token is found out, whatever it answers.
func TestImpostor(t *testing.T) {
	l := newTestServer(t, enginetest.FakeConfig{}, nil)
	cert := certificate(t)
	for name, pretend := range map[string]func(t *testing.T, client *tls.Conn){
		"that makes a proof up": func(t *testing.T, client *tls.Conn) {
			takeMessage(t, client)
			sendMessage(t, client, `{"protocol":1,"version":"v1","proof":"AAAA"}`)
		},
		"that gives the proof back": func(t *testing.T, client *tls.Conn) {
			hello := takeMessage(t, client)
			sendMessage(t, client, hello)
		},
		"in the middle": func(t *testing.T, client *tls.Conn) {
			hello := takeMessage(t, client)
			real, err := tls.Dial("tcp", l.address, &tls.Config{InsecureSkipVerify: true})
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = real.Close() }()
			sendMessage(t, real, hello)
			if got := takeMessage(t, real); !strings.Contains(got, `"refused":"token"`) {
				t.Errorf("the server answers %s to a proof of another connection", got)
			}
			sendMessage(t, client, `{"protocol":1,"version":"v1"}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			listener, err := tls.Listen("tcp", "127.0.0.1:0",
				&tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}})
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				conn, err := listener.Accept()
				if err != nil {
					t.Error(err)
					return
				}
				defer func() { _ = conn.Close() }()
				pretend(t, conn.(*tls.Conn))
			}()
			s, err := remote.Dial(t.Context(),
				remote.Target{Address: listener.Addr().String(), Token: l.target.Token, Version: "v1"})
			if err == nil {
				t.Error("the session begins", s.Close())
			} else if !errors.Is(err, remote.ErrToken) {
				t.Errorf("Dial = %v, want remote.ErrToken", err)
			}
			<-ended
			_ = listener.Close() // nobody else comes
		})
	}
}

func sendMessage(t *testing.T, w io.Writer, text string) {
	t.Helper()
	if _, err := w.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(text))), text...)); err != nil {
		t.Error(err)
	}
}

func takeMessage(t *testing.T, r io.Reader) string {
	t.Helper()
	var size [2]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		t.Error(err)
		return ""
	}
	text := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(r, text); err != nil {
		t.Error(err)
	}
	return string(text)
}

// A greeting of another protocol is told which one is spoken here.
func TestOtherProtocol(t *testing.T) {
	l := newTestServer(t, enginetest.FakeConfig{}, nil)
	conn, err := tls.Dial("tcp", l.address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	sendMessage(t, conn, `{"protocol":99,"version":"v9","proof":"","more":[1]}`)
	if got := takeMessage(t, conn); got != `{"protocol":1,"refused":"protocol"}` {
		t.Errorf("the server answers %s", got)
	}
	until(t, "the log", func() bool { return l.logged("it uses protocol 99, this server uses protocol 1") })
}

// Garbage, half greetings and silence end without a session, and while they last
// another client is served.
func TestStrangers(t *testing.T) {
	l := newTestServer(t, enginetest.FakeConfig{}, nil)
	secure := func(text string) func(t *testing.T, c net.Conn) {
		return func(t *testing.T, c net.Conn) {
			conn := tls.Client(c, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
			if err := conn.HandshakeContext(t.Context()); err != nil {
				t.Error(err)
			}
			_, _ = conn.Write([]byte(text)) // the server may have hung up
		}
	}
	var strangers []net.Conn
	for name, say := range map[string]func(t *testing.T, c net.Conn){
		"nothing":            func(*testing.T, net.Conn) {},
		"garbage":            func(_ *testing.T, c net.Conn) { _, _ = c.Write([]byte("GET / HTTP/1.1\r\n\r\n")) },
		"garbage inside":     secure("\x00\x05nojsn"),
		"too long a message": secure("\xff\xff" + strings.Repeat("x", 1<<16)),
	} {
		c, err := net.Dial("tcp", l.address)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) { say(t, c) })
		strangers = append(strangers, c)
	}
	// An old TLS is refused.
	if c, err := tls.Dial("tcp", l.address,
		&tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}); err == nil {
		t.Error("TLS 1.2 is spoken", c.Close())
	}
	until(t, "room at the door", func() bool {
		s, err := remote.Dial(t.Context(), l.target)
		return err == nil && s.Close() == nil
	})
	// All of them, the silent one too, are shown out.
	for _, c := range strangers {
		if err := c.SetReadDeadline(time.Now().Add(testTimeout)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, c); isTimeout(err) {
			t.Error("the server has not hung up on a stranger")
		}
		_ = c.Close() // only read from
	}
	if l.engine.Live() != 0 || len(l.engine.Calls()) != 0 {
		t.Errorf("strangers got as far as the engine: %q", l.engine.Calls())
	}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// Few of one address stand at the door at once, so tokens cannot be tried fast.
func TestCrowd(t *testing.T) {
	l := newTestServer(t, enginetest.FakeConfig{}, nil)
	var crowd []net.Conn
	for range 12 {
		c, err := net.Dial("tcp", l.address)
		if err != nil {
			t.Fatal(err)
		}
		crowd = append(crowd, c)
	}
	until(t, "some of a crowd are refused", func() bool { return l.logged("too many connections without a token") })
	for _, c := range crowd {
		_ = c.Close() // not used
	}
	until(t, "room at the door", func() bool {
		s, err := remote.Dial(t.Context(), l.target)
		return err == nil && s.Close() == nil
	})
}
