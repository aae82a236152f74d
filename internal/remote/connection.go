package remote

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"sync"
	"time"
)

// serveOne serves one connection, and returns when the connection or ctx has ended. Handlers may
// still run then; their contexts have ended.
func serveOne(ctx context.Context, conn *tls.Conn, h http.Handler) {
	gone := make(chan struct{})
	var protocols http.Protocols
	protocols.SetHTTP2(true)
	one := &http.Server{
		Handler:        h,
		Protocols:      &protocols,
		MaxHeaderBytes: 8 << 10,
		BaseContext:    func(net.Listener) context.Context { return ctx },
		ErrorLog:       log.New(io.Discard, "", 0), // the session reports errors
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams,
			SendPingTimeout:      keepAliveTime, PingTimeout: keepAliveTime, WriteByteTimeout: writeTimeout,
		},
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateClosed {
				close(gone)
			}
		},
	}
	l := &singleConnListener{conn: make(chan net.Conn, 1), closed: make(chan struct{}), addr: conn.LocalAddr()}
	l.conn <- conn
	go func() { _ = one.Serve(l) }() // ends with Close
	select {
	case <-gone:
	case <-ctx.Done():
	}
	_ = one.Close() // the connection may be closed already
}

// A singleConnListener is a net.Listener that accepts one connection.
type singleConnListener struct {
	conn   chan net.Conn
	closed chan struct{}
	once   sync.Once
	addr   net.Addr
}

// Accept implements net.Listener.
func (l *singleConnListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *singleConnListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *singleConnListener) Addr() net.Addr { return l.addr }

// certificate makes a key for the life of one server. Nobody needs to know it: see bindingOf.
func certificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().AddDate(10, 0, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}
