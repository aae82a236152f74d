// Command server is a web server whose every answer takes as much work as it is told, in steps of computing and in
// calls of the kernel:
//
//	server PORT STEPS CALLS
package main

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"syscall"
)

func main() {
	if err := serve(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(port, steps, calls string) error {
	n, err := strconv.Atoi(steps)
	if err != nil {
		return err
	}
	c, err := strconv.Atoi(calls)
	if err != nil {
		return err
	}
	return http.ListenAndServe(":"+port, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		call(c)
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

// call asks the kernel so many times for something that it tells at once. A filter that looks at the argument, as that
// of Docker does, has to run each time: the kernel remembers only what is allowed for all arguments.
func call(times int) {
	const ask = 0xffffffff
	for range times {
		_, _, _ = syscall.RawSyscall(syscall.SYS_PERSONALITY, ask, 0, 0) // it cannot fail
	}
}
