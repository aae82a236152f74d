package postgres

import (
	"errors"

	"github.com/tare-bench/tare/internal/load"
)

// RunWith is Run with TLS, for tls=yes; nil means that this program has none.
func RunWith(a *load.Args, encrypt TLS) (*load.Report, error) {
	p, err1 := readPlan(a)
	_, err2 := readTarget(a)
	if err := errors.Join(err1, err2, a.Err(), p.check()); err != nil {
		return nil, err
	}
	return nil, errors.New("not yet")
}
