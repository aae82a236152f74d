// Command tare measures what containers cost.
package main

import (
	"os"

	"github.com/tare-bench/tare/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
