package http

import (
	"errors"
	"path/filepath"

	"github.com/tare-bench/tare/internal/supervise"
)

// certify makes files with a self-signed certificate and its key. Every user may read the key: it
// protects nothing, and is removed with the site.
func (s contentDir) certify() (cert, key string, err error) {
	signed, secret, err := supervise.Certify()
	if err != nil {
		return "", "", err
	}
	cert, key = filepath.Join(s.config(), "cert.pem"), filepath.Join(s.config(), "key.pem")
	return cert, key, errors.Join(s.write(cert, signed), s.write(key, secret))
}
