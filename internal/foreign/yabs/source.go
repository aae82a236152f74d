// Package yabs reads the JSON of YABS (yet-another-bench-script): what it measured of the disk with fio, of
// the network with iperf3, and of the CPUs with Geekbench.
//
// None of it is what tare's workload host measures: fio mixes reads with writes, iperf3 talks to servers
// far away, and Geekbench is a program that cannot be packed. So the metrics have names of their own.
package yabs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/foreign"
)

// Source reads the JSON that YABS writes with -w or prints with -j.
func Source() foreign.Source {
	return foreign.Source{Name: "yabs", Doc: "(the JSON of yet-another-bench-script)", Read: read}
}

const hint = "give the file that YABS wrote with -w, or what it printed with -j"

func read(in *foreign.Input) ([]foreign.Set, error) {
	var sets []foreign.Set
	for _, f := range in.Files {
		text, err := f.Whole()
		if err != nil {
			return nil, err
		}
		all, err := parse(text)
		if err != nil {
			return nil, &foreign.Error{File: f.Name, Err: err, Hint: hint}
		}
		for _, o := range all {
			made := o.sets(f.Name)
			for i := range made {
				made[i].Found = in.Written()
			}
			sets = append(sets, made...)
		}
	}
	return sets, nil
}

// parse finds the JSON in a text: with -j it comes after everything else that YABS prints. A file can have
// several, one after the other.
func parse(text []byte) (all []output, err error) {
	begin := beginning(text)
	if begin < 0 {
		return nil, errors.New("there is no JSON in it")
	}
	d := json.NewDecoder(bytes.NewReader(mended(text[begin:])))
	for {
		var o output
		err := d.Decode(&o)
		switch {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil && len(all) > 0:
			return all, nil // something else follows
		case err != nil:
			return nil, fmt.Errorf("its JSON is damaged: %w", err)
		case o.Version == "" || o.OS.Kernel == "" && len(o.FIO)+len(o.IPerf)+len(o.Geekbench) == 0:
			return nil, errors.New("its JSON is not of YABS")
		}
		all = append(all, o)
	}
}

// beginning is where the first line begins with a brace.
func beginning(text []byte) int {
	for at := 0; at < len(text); {
		line, _, _ := bytes.Cut(text[at:], []byte("\n"))
		if bytes.HasPrefix(bytes.TrimSpace(line), []byte("{")) {
			return at
		}
		at += len(line) + 1
	}
	return -1
}

// number is a number, or what stands in its place: null, a string with a number in it, or nothing that is
// one. It is NaN if it is unknown.
type number float64

// UnmarshalJSON implements json.Unmarshaler.
func (n *number) UnmarshalJSON(text []byte) error {
	v, err := strconv.ParseFloat(strings.Trim(string(text), `"`), 64)
	if err != nil || v < 0 {
		v = math.NaN()
	}
	*n = number(v)
	return nil
}

// known returns the number. One that was not there at all is 0, which YABS measures of nothing.
func (n number) known() (float64, bool) {
	v := float64(n)
	return v, v > 0 && !math.IsInf(v, 0)
}

// sets makes a set of each kind of test: they have different conditions.
func (o *output) sets(file string) (all []foreign.Set) {
	for _, one := range []struct {
		kind, doc  string
		conditions []string
		metrics    []bench.Metric
		trials     []foreign.Trial
		notes      []foreign.Note
	}{
		{"fio", "random reads and writes of a file, mixed", []string{"block"}, diskMetrics(), o.disk(), nil},
		{
			"iperf3", "throughput to servers on the internet",
			[]string{"mode", "server"},
			networkMetrics(), o.network(),
			[]foreign.Note{{
				Code: foreign.CodeImported,
				Text: "throughput to servers on the internet is that of the whole way, and of the server's other clients",
				Hint: "measure between containers with 'tare run host', or between two machines with --remote",
			}},
		},
		{"geekbench", "scores of Geekbench", []string{"version"}, scoreMetrics(), o.scores(), nil},
	} {
		if len(one.trials) == 0 {
			continue
		}
		s := foreign.Set{
			Workload: "host", Subject: "host", Program: "yabs", Version: o.Version, Doc: one.doc, Host: o.host(),
			Labels: []bench.Label{{Key: "kind", Value: one.kind}}, Conditions: one.conditions, Metrics: one.metrics,
			Trials: one.trials, Notes: one.notes,
		}
		if o.Partition != "" && one.kind == "fio" {
			s.Facts = append(s.Facts, bench.Label{Key: "partition", Value: o.Partition})
		}
		if o.CPU.Freq != "" {
			s.Facts = append(s.Facts, bench.Label{Key: "frequency", Value: o.CPU.Freq})
		}
		for i := range s.Trials {
			s.Trials[i].Where, s.Trials[i].Began = file, o.began()
		}
		all = append(all, s)
	}
	return all
}

// began is when YABS was started; zero if it does not tell. It tells no times of single tests.
func (o *output) began() time.Time {
	start, ok := o.Runtime.Start.known()
	if !ok || start > 1<<40 {
		return time.Time{}
	}
	return time.Unix(int64(start), 0).UTC()
}

func (o *output) host() bench.HostFacts {
	h := bench.HostFacts{OS: o.OS.Distro, Kernel: o.OS.Kernel, CPU: o.CPU.Model}
	h.Arch = map[string]string{"x64": "amd64", "x86": "386", "aarch64": "arm64"}[o.OS.Arch]
	if h.Arch == "" {
		h.Arch = o.OS.Arch
	}
	if vm := strings.ToLower(o.OS.VM); vm != "none" {
		h.Virtual = vm
	}
	if cores, ok := o.CPU.Cores.known(); ok && cores < 1<<20 {
		h.CPUs = int(cores)
	}
	if ram, ok := o.Memory.RAM.known(); ok && ram < 1<<40 && (o.Memory.Units == "KiB" || o.Memory.Units == "") {
		h.Memory = int64(ram) << 10
	}
	return h
}
