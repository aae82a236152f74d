package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker (see the Makefile); nothing changes it later.
var version = ""

// toolVersion is what runs are stamped with.
func toolVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

func (a *invocation) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArgs,
		RunE:  func(*cobra.Command, []string) error { return a.printVersion() },
	}
}

func (a *invocation) printVersion() error {
	v := struct {
		Version string `json:"version"`
		Go      string `json:"go"`
		OS      string `json:"os"`
		Arch    string `json:"arch"`
	}{toolVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH}
	if a.global.JSON {
		return a.printJSON(v)
	}
	_, err := fmt.Fprintf(a.stdout, "tare %s (%s, %s/%s)\n", v.Version, v.Go, v.OS, v.Arch)
	return err
}
