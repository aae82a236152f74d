// Command runtime is an OCI runtime that misbehaves in one operation and is
// the real one otherwise. Its own name says how, RUNTIME.OPERATION.HOW:
//
//	runc.start.7ms    waits so long before it starts
//	runc.delete.hang  never deletes
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
	name := strings.Split(filepath.Base(os.Args[0]), ".")
	if len(name) != 3 {
		return fmt.Errorf("%s: not RUNTIME.OPERATION.HOW", os.Args[0])
	}
	if slices.Contains(os.Args[1:], name[1]) {
		if err := misbehave(began, name[2]); err != nil {
			return err
		}
	}
	binary, err := exec.LookPath(name[0])
	if err != nil {
		return err
	}
	return syscall.Exec(binary, append([]string{binary}, os.Args[1:]...), os.Environ())
}

func misbehave(began time.Time, how string) error {
	for how == "hang" {
		time.Sleep(time.Hour)
	}
	d, err := time.ParseDuration(how)
	if err != nil {
		return err
	}
	// A sleep ends late by as much as the machine is busy: the last of it is
	// spent awake, so that the time that is planted is the one that is named.
	time.Sleep(d - time.Since(began) - time.Millisecond)
	for time.Since(began) < d {
	}
	return nil
}
