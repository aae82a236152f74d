package memory

import (
	"bufio"
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/load/memory"
	"github.com/tare-bench/tare/internal/supervise"
)

var sysbench = supervise.Program{Name: "sysbench", Package: "package sysbench"}

// sysbenchJobs read and write one block again and again; all threads share it.
func sysbenchJobs(t bench.Task) []supervise.Job {
	job := func(operation, metric string) supervise.Job {
		return sysbench.Job(t.Spec, sysbenchArgs(t, operation), func(output []byte) (*load.Report, error) {
			rate, ok := sysbenchRate(output)
			if !ok {
				return nil, sysbench.UnknownOutput(`line "… MiB transferred (NUMBER MiB/sec)"`, output)
			}
			r := load.NewReport(memory.Name)
			r.Values[metric] = rate
			return r, nil
		})
	}
	return []supervise.Job{job("read", memory.Read), job("write", memory.Write)}
}

func sysbenchArgs(t bench.Task, operation string) []string {
	block, _ := bytesOf(t.Params["block"]) // both were validated
	total, _ := bytesOf(t.Params["total"])
	return []string{
		"memory", "--memory-oper=" + operation, "--memory-scope=global", "--memory-access-mode=seq",
		"--memory-block-size=" + strconv.FormatInt(block, 10), "--memory-total-size=" + strconv.FormatInt(total, 10),
		"--threads=" + supervise.Threads(t), "--time=3600", "run",
	}
}

// sysbenchRate finds the bytes per second in the output of sysbench 1.0.
func sysbenchRate(output []byte) (rate float64, ok bool) {
	for lines := bufio.NewScanner(bytes.NewReader(output)); lines.Scan(); {
		_, after, found := strings.Cut(lines.Text(), " MiB transferred (")
		number, ok := strings.CutSuffix(after, " MiB/sec)")
		if !found || !ok {
			continue
		}
		rate, err := strconv.ParseFloat(number, 64)
		return rate * (1 << 20), err == nil && rate > 0 && rate < 1e12
	}
	return 0, false
}

// bytesOf reads a size for sysbench.
func bytesOf(text string) (int64, error) {
	args, err := load.ParseArgs([]string{"size=" + text})
	if err != nil {
		return 0, err
	}
	n := args.Bytes("size", "1MiB", 1<<10, 1<<42)
	if args.Err() != nil {
		return 0, fmt.Errorf("%.40q is not a size from 1KiB to 4TiB, such as 1MiB", text)
	}
	return n, nil
}
