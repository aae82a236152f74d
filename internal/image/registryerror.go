package image

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// withAdvice adds to an error of a registry what it means and what to do. It quotes the registry's own
// message, up to a limit.
func (r *registry) withAdvice(err error) error {
	host := r.repo.RegistryStr()
	var status *transport.Error
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &certificate): // first, because a registry of this host is then also tried over plain HTTP
		return fmt.Errorf("%s: this host does not trust the registry's certificate: add its authority to this host's, "+
			"or set SSL_CERT_FILE to the authority's file: %w", host, err)
	case errors.As(err, &status):
		return fmt.Errorf("%s: %s%s", host, registryMessage(status), advice(status.StatusCode, host))
	}
	return fmt.Errorf("%s: %w", host, err)
}

// registryMessage formats the registry's answer.
func registryMessage(e *transport.Error) string {
	text := fmt.Sprintf("%d %s", e.StatusCode, http.StatusText(e.StatusCode))
	if e.Request != nil {
		text = fmt.Sprintf("%s %.300s: %s", e.Request.Method, e.Request.URL.Path, text)
	}
	if len(e.Errors) > 0 {
		text += fmt.Sprintf(" (%.60q: %.200q)", e.Errors[0].Code, e.Errors[0].Message)
	}
	return text
}

// advice returns what to do about an answer.
func advice(code int, host string) string {
	switch {
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		login := "docker login"
		if host != name.DefaultRegistry {
			login += " " + host
		}
		return fmt.Sprintf(": the image does not exist, or it needs credentials: log in with `%s`", login)
	case code == http.StatusNotFound:
		return ": the image does not exist: check its name and tag"
	case code == http.StatusTooManyRequests:
		return ": the registry limits the number of requests: log in, or wait"
	case code >= http.StatusInternalServerError:
		return ": the registry has a problem: try again later"
	}
	return ""
}
