package agent

import (
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// terminated returns a channel that receives SIGTERM. The first process of a PID
// namespace only gets signals for which it has a handler.
func terminated() <-chan os.Signal {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGTERM)
	return c
}

func sleep(args []string, _, _ io.Writer) int {
	if len(args) != 1 {
		return exitUsage
	}
	d, err := time.ParseDuration(args[0])
	if err != nil || d < 0 {
		return exitUsage
	}
	select {
	case <-terminated():
		return exitSIGTERM
	case <-time.After(d):
		return exitOK
	}
}

func hold(args []string, stdout, stderr io.Writer) int {
	if len(args) != 0 {
		return exitUsage
	}
	return printAndWait(terminated(), "hold", "ready\n", stdout, stderr)
}

// printAndWait prints text and waits for term, which the caller must have opened before:
// a reader of the text may send the signal at once.
func printAndWait(term <-chan os.Signal, task, text string, stdout, stderr io.Writer) int {
	if _, err := io.WriteString(stdout, text); err != nil {
		return result(stderr, task, err)
	}
	<-term
	return exitOK
}

// tick prints a line about every millisecond, until SIGTERM or until nobody reads it.
func tick(args []string, stdout, stderr io.Writer) int {
	if len(args) != 0 {
		return exitUsage
	}
	for term := terminated(); ; {
		select {
		case <-term:
			return exitOK
		case <-time.After(time.Millisecond):
		}
		if _, err := io.WriteString(stdout, "tick\n"); err != nil {
			return result(stderr, "tick", err)
		}
	}
}

func ignoreTerm(args []string, stdout, stderr io.Writer) int {
	if len(args) != 0 {
		return exitUsage
	}
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT)
	if _, err := io.WriteString(stdout, "ready\n"); err != nil {
		return result(stderr, "stubborn", err)
	}
	for {
		time.Sleep(time.Hour)
	}
}
