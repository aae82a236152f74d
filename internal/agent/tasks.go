package agent

import (
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

func exit(args []string, _, _ io.Writer) int {
	if len(args) != 1 {
		return exitUsage
	}
	code, err := strconv.ParseUint(args[0], 10, 8)
	if err != nil {
		return exitUsage
	}
	return int(code)
}

func echo(args []string, stdout, stderr io.Writer) int {
	w := stdout
	if len(args) > 0 && args[0] == "-2" {
		args, w = args[1:], stderr
	}
	_, err := io.WriteString(w, strings.Join(args, " ")+"\n")
	return result(stderr, "echo", err)
}

func env(args []string, stdout, stderr io.Writer) int {
	if len(args) != 0 {
		return exitUsage
	}
	var b strings.Builder
	for _, kv := range slices.Sorted(slices.Values(os.Environ())) {
		b.WriteString(kv + "\n")
	}
	_, err := io.WriteString(stdout, b.String())
	return result(stderr, "env", err)
}

func cat(args []string, stdout, stderr io.Writer) int {
	if len(args) != 1 {
		return exitUsage
	}
	f, err := os.Open(args[0])
	if err != nil {
		return result(stderr, "cat", err)
	}
	_, err = io.Copy(stdout, f)
	return result(stderr, "cat", err)
}

func write(args []string, _, stderr io.Writer) int {
	if len(args) != 2 {
		return exitUsage
	}
	return result(stderr, "write", os.WriteFile(args[0], []byte(args[1]), 0o644))
}

// block returns text to print: lines of 63 digits and a newline.
func block() []byte {
	line := strings.Repeat("0123456789", 7)[:63] + "\n"
	return []byte(strings.Repeat(line, 512))
}

// printBytes prints a number of bytes to stdout, or to both streams.
func printBytes(args []string, stdout, stderr io.Writer) int {
	if len(args) == 2 && args[1] == "both" {
		args, stdout = args[:1], io.MultiWriter(stdout, stderr)
	}
	if len(args) != 1 {
		return exitUsage
	}
	left, err := strconv.ParseInt(args[0], 10, 64)
	if err != nil || left < 0 {
		return exitUsage
	}
	for b := block(); left > 0 && err == nil; {
		b = b[:min(int64(len(b)), left)]
		left -= int64(len(b))
		_, err = stdout.Write(b)
	}
	return result(stderr, "print", err)
}

func printForever(args []string, stdout, stderr io.Writer) int {
	if len(args) != 0 {
		return exitUsage
	}
	for b := block(); ; {
		if _, err := stdout.Write(b); err != nil {
			return result(stderr, "spew", err)
		}
	}
}
