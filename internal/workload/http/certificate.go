package http

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"path/filepath"
	"time"
)

// certify makes a self-signed certificate and its key. Every user may read the key: it
// protects nothing, and is removed with the site.
func (s contentDir) certify() (cert, key string, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "tare"}, DNSNames: []string{"tare"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	signed, err1 := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	secret, err2 := x509.MarshalPKCS8PrivateKey(private)
	if err := errors.Join(err1, err2); err != nil {
		return "", "", err
	}
	cert, key = filepath.Join(s.config(), "cert.pem"), filepath.Join(s.config(), "key.pem")
	return cert, key, errors.Join(
		s.write(cert, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}))),
		s.write(key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))))
}
