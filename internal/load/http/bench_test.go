package http_test

import (
	"context"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/kernel/affinity"
	"github.com/tare-bench/tare/internal/load/http"
)

// rounds is how many times three programs are compared, at most: each takes some
// seconds.
const rounds = 10

// BenchmarkBesideOthers measures with this load, with wrk and with ab by turns,
// each on the first CPU, against an nginx on the second. It reports the medians of
// the ratios, and by how much wrk differs from itself. With one connection nobody
// waits for others, so that the times do not hang on the rate.
func BenchmarkBesideOthers(b *testing.B) {
	for _, program := range []string{"/usr/sbin/nginx", "wrk", "ab", "taskset"} {
		if _, err := exec.LookPath(program); err != nil {
			b.Skipf("there is nothing to compare with: %v", err)
		}
	}
	addr, group := startNginx(b)
	b.Run("small", func(b *testing.B) { compareWithAB(b, addr, "/small", "16") })
	b.Run("large", func(b *testing.B) { compareWithAB(b, addr, "/large", "16") })
	b.Run("one", func(b *testing.B) { compareWithAB(b, addr, "/small", "1") })
	b.Run("open", func(b *testing.B) { openLoop(b, addr) })
	b.Run("stall", func(b *testing.B) { stalls(b, addr, group) })
}

func compareWithAB(b *testing.B, addr, path, connections string) {
	ratios := map[string][]float64{}
	add := func(name string, v float64) { ratios[name] = append(ratios[name], v) }
	before := 0.0
	for range min(b.N, rounds) {
		ours := mustRun(b, addr, "path="+path, "connections="+connections, "cpus=0", "time=1s").Values
		wrk := pinned(b, "wrk", "--latency", "-t1", "-c"+connections, "-d1s", "http://"+addr+path)
		rate := number(b, wrk, `Requests/sec: +([0-9.]+)`)
		add("rate/wrk", ours["http.rate"]/rate)
		add("p50/wrk", ours["http.time.p50"]/quantile(b, wrk, "50"))
		add("p99/wrk", ours["http.time.p99"]/quantile(b, wrk, "99"))
		if before > 0 {
			add("wrk-p50/itself", max(before, quantile(b, wrk, "50"))/min(before, quantile(b, wrk, "50")))
		}
		before = quantile(b, wrk, "50")
		ab := pinned(b, "ab", "-q", "-k", "-c"+connections, "-t1", "-n1000000", "http://"+addr+path)
		add("rate/ab", ours["http.rate"]/number(b, ab, `Requests per second: +([0-9.]+)`))
	}
	for name, all := range ratios {
		slices.Sort(all)
		b.ReportMetric(all[len(all)/2], name)
	}
	b.ReportMetric(0, "ns/op")
}

// openLoop reports how well a rate is kept, and with how much of a CPU, of which
// nothing is left out.
func openLoop(b *testing.B, addr string) {
	var off, cpu []float64
	for range min(b.N, rounds) {
		before, began := affinity.CPUTime(), time.Now()
		v := mustRun(b, addr, "path=/small", "cpus=0", "time=2s", "rate=20000").Values
		cpu = append(cpu, 100*(affinity.CPUTime()-before).Seconds()/time.Since(began).Seconds())
		off = append(off, 100*math.Abs(v["http.rate"]/20_000-1))
	}
	slices.Sort(off)
	slices.Sort(cpu)
	b.ReportMetric(off[len(off)/2], "%off")
	b.ReportMetric(cpu[len(cpu)/2], "%cpu")
	b.ReportMetric(0, "ns/op")
}

// stalls reports what a server that does nothing for one second of ten does to the
// times of both loops.
func stalls(b *testing.B, addr string, group int) {
	for name, words := range map[string][]string{"open-p99-s": {"rate=2000"}, "closed-p99-s": nil} {
		stop := time.AfterFunc(4*time.Second, func() { _ = unix.Kill(-group, unix.SIGSTOP) })
		resume := time.AfterFunc(5*time.Second, func() { _ = unix.Kill(-group, unix.SIGCONT) })
		r := mustRun(b, addr, append(words, "path=/small", "cpus=0", "time=10s")...)
		stop.Stop()
		resume.Stop()
		if labelled := slices.Contains(r.Notes, http.NoteClosedLoop); labelled != (words == nil) {
			b.Errorf("%s: notes %v", name, r.Notes)
		}
		b.ReportMetric(r.Values["http.time.p99"], name)
	}
	b.ReportMetric(0, "ns/op")
}

// startNginx serves two files on the second CPU. Its processes are a group.
func startNginx(b *testing.B) (addr string, group int) {
	b.Helper()
	dir := b.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(d, 0o755); err != nil { // its workers may be another user
			b.Fatal(err)
		}
	}
	for name, size := range map[string]int{"small": 612, "large": 1_000_000} {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, size), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	addr = l.Addr().String()
	_ = l.Close()
	config := filepath.Join(dir, "nginx.conf")
	text := fmt.Sprintf("daemon off; pid nginx.pid; worker_processes 1; error_log stderr;\nevents {}\nhttp { "+
		"access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000000;\nserver { listen %s; root %s; } }\n",
		addr, dir)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	cmd := exec.CommandContext(ctx, "taskset", "-c", "1", "/usr/sbin/nginx", "-e", "stderr", "-p", dir, "-c", config)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // its workers are to end too
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was interrupted
	})
	mustRun(b, addr, "path=/small", "wait=10s", "requests=1")
	return addr, cmd.Process.Pid
}

// pinned runs a program on the first CPU.
func pinned(b *testing.B, argv ...string) []byte {
	b.Helper()
	out, err := exec.CommandContext(b.Context(), "taskset", append([]string{"-c", "0"}, argv...)...).Output()
	if err != nil {
		b.Fatal(err)
	}
	return out
}

func number(b *testing.B, text []byte, form string) float64 {
	b.Helper()
	found := regexp.MustCompile(form).FindSubmatch(text)
	if found == nil {
		b.Fatalf("no %s in %s", form, text)
	}
	v, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		b.Fatal(err)
	}
	return v
}

// quantile is one of wrk's, in seconds.
func quantile(b *testing.B, text []byte, p string) float64 {
	b.Helper()
	found := regexp.MustCompile(` ` + p + `% +([0-9.]+[a-z]+)`).FindSubmatch(text)
	if found == nil {
		b.Fatalf("no %s %% in %s", p, text)
	}
	d, err := time.ParseDuration(string(found[1]))
	if err != nil {
		b.Fatal(err)
	}
	return d.Seconds()
}
