// Command runtime is an OCI runtime that misbehaves in one operation and is
// the real one otherwise. Its own name says how, RUNTIME.OPERATION.HOW:
//
//	runc.start.7ms          waits so long before it starts, busily
//	runc.delete.hang        never deletes
//	runc.start.steal=0      has a busy loop share CPU 0 with the container
//	runc.start.wiops=500    limits its writes per second to the disk of the working directory
//	runc.start.rate=100mbit limits what it receives by its veth
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	began := time.Now()
	if filepath.Base(os.Args[0]) == "thief" {
		return steal()
	}
	name := strings.Split(filepath.Base(os.Args[0]), ".")
	if len(name) != 3 {
		return fmt.Errorf("%s: not RUNTIME.OPERATION.HOW", os.Args[0])
	}
	binary, err := exec.LookPath(name[0])
	if err != nil {
		return err
	}
	if slices.Contains(os.Args[1:], name[1]) {
		if err := misbehave(began, binary, name[1], name[2]); err != nil {
			return err
		}
	}
	return syscall.Exec(binary, append([]string{binary}, os.Args[1:]...), os.Environ())
}

func misbehave(began time.Time, binary, operation, how string) error {
	if strings.Contains(how, "=") {
		return plant(binary, operation, how)
	}
	for how == "hang" {
		time.Sleep(time.Hour)
	}
	d, err := time.ParseDuration(how)
	if err != nil {
		return err
	}
	// All of it is spent awake, so that the time that is planted is the one that is named. A sleep
	// ends late by as much as the machine is busy, and what comes after it takes longer, because
	// the CPU was idle: here 0.8 ms after a sleep of 19 ms.
	for time.Since(began) < d {
	}
	return nil
}
