package inspect

import (
	"path"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/image/rpmdb"
)

// Where package managers keep what they have installed.
const (
	dpkgStatus = "var/lib/dpkg/status"
	dpkgParts  = "var/lib/dpkg/status.d" // of images without dpkg: a file for each package
)

var (
	apkFiles = [...]string{"lib/apk/db/installed", "usr/lib/apk/db/installed"}
	rpmDirs  = [...]string{"usr/lib/sysimage/rpm", "var/lib/rpm"}
)

// How much of a file is looked into.
const (
	maxList    = 64 << 20  // of packages, as text
	maxPart    = 1 << 20   // of one package
	maxRPM     = 256 << 20 // a database of rpm
	maxLibrary = 16 << 20
	maxSmall   = 64 << 10
)

// interest is how many bytes of a file are looked into; 0 for most.
func interest(name string) int64 {
	dir, base := path.Split(name)
	switch dir = path.Clean(dir); {
	case name == dpkgStatus || name == apkFiles[0] || name == apkFiles[1]:
		return maxList
	case dir == dpkgParts && !strings.HasSuffix(base, ".md5sums"):
		return maxPart
	case name == "etc/os-release" || name == "usr/lib/os-release":
		return maxSmall
	case isLibrary(dir, base):
		return maxLibrary
	case dir == rpmDirs[0] || dir == rpmDirs[1]:
		if slices.Contains(rpmdb.Files(), base) {
			return maxRPM
		}
	}
	return 0
}
