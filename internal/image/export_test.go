package image

import "time"

// WithPatience is for registries that need a lot of it.
func WithPatience(idle, pause time.Duration) Option {
	return func(l *Library) { l.retry = retryPolicy{idle, pause} }
}
