// Command server is a web server whose every answer takes as much work as it is told:
//
//	server PORT STEPS
package main

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
)

func main() {
	if err := serve(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(port, steps string) error {
	n, err := strconv.Atoi(steps)
	if err != nil {
		return err
	}
	return http.ListenAndServe(":"+port, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, "%020d\n", compute(n)) // a client may go away
	}))
}

// compute does so many steps, each of which has to wait for the one before.
func compute(steps int) (x uint64) {
	for range steps {
		x = x*6364136223846793005 + 1442695040888963407
	}
	return x
}
