package bench

import (
	"fmt"
	"net/netip"
	"strings"
)

// pullPrefix begins the repository of images that a run pulls.
const pullPrefix = "tare-"

// PullRepository names the repository, in a registry of tare's own, of the images
// that an engine pulls in a run. Engines keep no labels with them: by this name
// what a dead run left is found.
func PullRepository(run, engine string) string { return pullPrefix + run + "/" + engine }

// PulledBy is the run that pulled an image of that name, which is
// "127.0.0.1:PORT/" and a name of PullRepository's; empty if none did.
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

// CheckPull refuses what no Puller pulls: an image that would not be found again
// after a crash.
func CheckPull(spec Spec) error {
	if PulledBy(spec.Image) == "" {
		return fmt.Errorf("pull %.200q: not an image of a registry of tare's own", spec.Image)
	}
	return nil
}
