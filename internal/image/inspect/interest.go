package inspect

import "path"

// How many bytes of a file are read.
const (
	maxLibrary = 16 << 20
	maxRelease = 64 << 10
)

// bytesToRead is how many bytes of a file are read; 0 for most.
func bytesToRead(name string) int64 {
	dir, base := path.Split(name)
	switch {
	case name == "etc/os-release" || name == "usr/lib/os-release":
		return maxRelease
	case isLibrary(path.Clean(dir), base):
		return maxLibrary
	}
	return 0
}
