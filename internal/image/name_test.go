package image_test

import (
	"testing"

	"github.com/tare-bench/tare/internal/image"
)

func TestMeant(t *testing.T) {
	for ref, want := range map[string]string{
		"hots:nginx":          "host:nginx",
		"hst:/usr/sbin/nginx": "host:/usr/sbin/nginx",
		"Host:nginx":          "host:nginx",
		"tat:web.tar":         "tar:web.tar",
		"tarr:web.tar":        "tar:web.tar",
		"oic:dir":             "oci:dir",
		"dcoker:nginx:alpine": "docker://nginx:alpine",
		"dockr://nginx":       "docker://nginx",
		"host:nginx":          "",
		"tar:x":               "",
		"oci:x":               "",
		"docker:x":            "",
		"nginx:alpine":        "",
		"nginx":               "",
		"hots":                "",
		"hots:":               "",
		"localhost:5000/x":    "",
		":x":                  "",
		"shot:x":              "",
		"":                    "",
	} {
		got, ok := image.Intended(ref)
		if got != want || ok != (want != "") {
			t.Errorf("Meant(%q) = %q, %v; want %q", ref, got, ok, want)
		}
	}
}

func TestNamedElsewhere(t *testing.T) {
	for ref, want := range map[string]string{
		"nginx":        "write docker://nginx for an image in a registry, oci:DIR or tar:FILE for one in a file",
		"docker:nginx": "write docker://nginx, with two slashes, if you mean nginx in a registry",
		"hots:nginx":   "write host:nginx if you mean that, or docker://hots:nginx if it is in a registry",
	} {
		if got := image.NamedElsewhere(ref); got != want {
			t.Errorf("NamedElsewhere(%q) = %q, want %q", ref, got, want)
		}
	}
}
