package app

import (
	"crypto/rand"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/experiment"
	"github.com/tare-bench/tare/internal/image"
	"github.com/tare-bench/tare/internal/workload/build"
	"github.com/tare-bench/tare/internal/workload/compose"
	"github.com/tare-bench/tare/internal/workload/cpu"
	"github.com/tare-bench/tare/internal/workload/density"
	"github.com/tare-bench/tare/internal/workload/disk"
	"github.com/tare-bench/tare/internal/workload/http"
	"github.com/tare-bench/tare/internal/workload/idle"
	"github.com/tare-bench/tare/internal/workload/lifecycle"
	"github.com/tare-bench/tare/internal/workload/memory"
	"github.com/tare-bench/tare/internal/workload/net"
	"github.com/tare-bench/tare/internal/workload/postgres"
	"github.com/tare-bench/tare/internal/workload/pull"
	"github.com/tare-bench/tare/internal/workload/start"
	"github.com/tare-bench/tare/internal/workload/survey"
)

// Workloads lists every workload in the program.
func Workloads() []bench.Workload {
	images := func(dir string) *image.Library { return image.NewLibrary(dir) }
	return append(singleWorkloads(),
		lifecycle.NewThroughput(), density.New(), http.New(images), pull.New(images), start.New(images), build.New(),
		compose.New(), postgres.New(images), idle.New(), surveyWorkload(), ofImages(images), ofHost())
}

// singleWorkloads lists the workloads that ask one question each of one container, in the
// order in which a survey asks them.
func singleWorkloads() []bench.Workload {
	token := rand.Text()
	return []bench.Workload{
		lifecycle.New(), cpu.New(), memory.New(), disk.New(), net.NewRTT(token), net.NewThroughput(token),
	}
}

// surveyWorkload is the survey of all of them.
func surveyWorkload() bench.Workload {
	var parts []survey.Part
	for _, w := range singleWorkloads() {
		parts = append(parts, survey.Part{Name: w.Name(), Workload: w})
	}
	return survey.New(parts...)
}

// ImageWorkload is the name of the workload that compares images, and of its experiment.
func ImageWorkload() string { return ofImages(nil).Name() }

// ofImages is the survey of what an image costs a service.
func ofImages(images func(dir string) *image.Library) bench.Workload {
	return survey.OfImages(pull.New(images), start.New(images), http.New(images))
}

// ofHost is the survey of what a whole host does for containers.
func ofHost() bench.Workload {
	network := net.NewThroughput(rand.Text())
	return survey.OfHost(
		survey.Part{Name: "idle", Workload: idle.New()},
		survey.Part{Name: "start", Workload: lifecycle.New(), Prefix: "start"},
		survey.Part{Name: "cpu", Workload: cpu.New()},
		survey.Part{Name: "memory", Workload: memory.New()},
		survey.Part{Name: "disk", Workload: disk.New()},
		survey.Part{Name: network.Name(), Workload: network},
		survey.Part{Name: "density", Workload: density.New(), Prefix: "density"},
		survey.Part{Name: "build", Workload: build.New(), NoSpec: true},
		survey.Part{Name: "compose", Workload: compose.New(), Prefix: "compose", NoSpec: true},
	)
}

// knownNames is what an experiment is held to in this build of tare.
func knownNames() experiment.Known {
	k := experiment.Known{
		Workloads: Workloads(), Engines: Names(Builtin()), Rank: enginePreference(),
		Behind: map[string]string{"cri": "containerd"},
	}
	for _, d := range drivers() {
		k.Drivers = append(k.Drivers, experiment.Driver{Name: d.name, Options: d.options})
	}
	return k
}

// NotesFor lists the notes that samples of a run can have, in the words of the run's workload. Those of all
// others follow: an earlier version may have marked the samples.
func NotesFor(workload string) []bench.Note {
	all := Workloads()
	if own := workloadNamed(workload); own != nil {
		all = append([]bench.Workload{own}, all...)
	}
	return bench.NotesOf(all...)
}

func workloadNamed(name string) bench.Workload {
	for _, w := range Workloads() {
		if w.Name() == name {
			return w
		}
	}
	return nil
}
