package image

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// explain says what an error of a registry means, and what to do about it. The
// registry's own words are bounded and quoted.
func (r *registry) explain(err error) error {
	host := r.repo.RegistryStr()
	var status *transport.Error
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &certificate): // first: a registry of this host is then asked in plain words, in vain
		return fmt.Errorf("%s: its certificate is not trusted here: add its authority to those of this host, or name the authority's file in SSL_CERT_FILE: %w", host, err)
	case errors.As(err, &status):
		return fmt.Errorf("%s: %s%s", host, answered(status), advice(status.StatusCode, host))
	}
	return fmt.Errorf("%s: %w", host, err)
}

// answered is what the registry said.
func answered(e *transport.Error) string {
	text := fmt.Sprintf("%d %s", e.StatusCode, http.StatusText(e.StatusCode))
	if e.Request != nil {
		text = fmt.Sprintf("%s %.300s: %s", e.Request.Method, e.Request.URL.Path, text)
	}
	if len(e.Errors) > 0 {
		text += fmt.Sprintf(" (%.60q: %.200q)", e.Errors[0].Code, e.Errors[0].Message)
	}
	return text
}

// advice says what to do about an answer.
func advice(code int, host string) string {
	switch {
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		login := "docker login"
		if host != name.DefaultRegistry {
			login += " " + host
		}
		return fmt.Sprintf(": there is no such image, or it needs credentials: log in with `%s`", login)
	case code == http.StatusNotFound:
		return ": there is no such image: look at its name and tag"
	case code == http.StatusTooManyRequests:
		return ": it takes no more requests for now: log in, or wait"
	case code >= http.StatusInternalServerError:
		return ": the registry is in trouble: try again later"
	}
	return ""
}
