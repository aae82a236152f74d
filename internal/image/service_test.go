package image

import (
	"slices"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

func TestPort(t *testing.T) {
	for name, test := range map[string]struct {
		exposed []string
		want    uint16
	}{
		"none":            {nil, 0},
		"one":             {[]string{"80/tcp"}, 80},
		"without word":    {[]string{"5432"}, 5432},
		"beside udp":      {[]string{"53/udp", "853/tcp"}, 853},
		"only udp":        {[]string{"53/udp"}, 0},
		"two":             {[]string{"80/tcp", "443/tcp"}, 0},
		"three":           {[]string{"80/tcp", "443/tcp", "8080/tcp"}, 0},
		"not a number":    {[]string{"http/tcp", "81/tcp"}, 81},
		"not a port":      {[]string{"65536/tcp"}, 0},
		"several at once": {[]string{"80-90/tcp"}, 0},
	} {
		i := &Image{config: v1.Config{ExposedPorts: map[string]struct{}{}}}
		for _, p := range test.exposed {
			i.config.ExposedPorts[p] = struct{}{}
		}
		if got := i.Port(); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}

func TestHealthCheck(t *testing.T) {
	for name, test := range map[string]struct {
		check *v1.HealthConfig
		want  []string
	}{
		"none":      {nil, nil},
		"inherited": {&v1.HealthConfig{}, nil},
		"disabled":  {&v1.HealthConfig{Test: []string{"NONE"}}, nil},
		"program":   {&v1.HealthConfig{Test: []string{"CMD", "/bin/ok", "-x"}}, []string{"/bin/ok", "-x"}},
		"shell":     {&v1.HealthConfig{Test: []string{"CMD-SHELL", "ok || exit 1"}}, []string{"/bin/sh", "-c", "ok || exit 1"}},
		"unknown":   {&v1.HealthConfig{Test: []string{"WHAT", "x"}}, nil},
	} {
		i := &Image{config: v1.Config{Healthcheck: test.check}}
		if got := i.HealthCheck(); !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
