package bench

import (
	"fmt"
	"net/netip"
	"strings"
)

// pullPrefix begins the repository of images that a run pulls.
const pullPrefix = "tare-"

// PullRepository names the repository, in a registry of tare's own, of the images
// that an engine pulls in a run. Engines store no labels with pulled images, so the
// images of a dead run are found by this name.
func PullRepository(run, engine string) string { return pullPrefix + run + "/" + engine }

// PulledBy returns the run that pulled an image, whose name is "127.0.0.1:PORT/" and a
// name of PullRepository; empty for other images.
func PulledBy(image string) (run string) {
	host, path, _ := strings.Cut(image, "/")
	name, rest, more := strings.Cut(path, "/")
	run, ours := strings.CutPrefix(name, pullPrefix)
	at, err := netip.ParseAddrPort(host)
	if err != nil || at.Addr() != OnLoopback(0).Addr() || !more || rest == "" || !ours || ValidRunID(run) != nil {
		return ""
	}
	return run
}

// CheckPull refuses an image that no Puller may pull, because tare would not find it
// again after a crash.
func CheckPull(spec Spec) error {
	if PulledBy(spec.Image) == "" {
		return fmt.Errorf("pull %.200q: not an image of a registry of tare's own", spec.Image)
	}
	return nil
}
