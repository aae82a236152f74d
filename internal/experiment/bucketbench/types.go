package bucketbench

import (
	"slices"
	"time"
)

// A driverType is a type of driver: the engine that does its work in tare, and
// what it did in bucketbench that tare does not do.
type driverType struct {
	name   string
	engine string // what the engine is called
	driver string // the kind of tare's engine
	option string // that a client path becomes; empty where it has no meaning
	client string // the option's value where the file gives none

	bundle            bool          // ran a bundle and not the image
	stopKills         bool          // stop was SIGKILL
	grace             time.Duration // between stop's SIGTERM and SIGKILL
	stop              string        // what stop was
	hasWait           bool          // wait was implemented
	ignoresPauseError bool          // a pause that failed was no error
	// removeNeedsExit says that remove refused a container that had not exited.
	removeNeedsExit bool
	note            string // what it did otherwise
}

// cliNote is about the types that started a program for each command.
const cliNote = "each command started the docker program, whose own time is in bucketbench's numbers; tare talks to " +
	"the daemon directly"

// runtimeNote is about the types that started an OCI runtime.
const runtimeNote = "run started the runtime once; here create and start are two calls, as engines above a runtime " +
	"make them"

// types lists every type.
func types() []driverType {
	const second = time.Second
	runtime := func(name, binary, note string) driverType {
		return driverType{
			name: name, engine: binary, driver: "oci", option: "binary", client: binary,
			bundle: true, stopKills: true, removeNeedsExit: true, stop: "SIGKILL, without waiting for the exit", note: note,
		}
	}
	return []driverType{
		{
			name: "DockerCLI", engine: "docker", driver: "docker", grace: 10 * second, stop: "SIGTERM, and SIGKILL after 10 s",
			hasWait: true, removeNeedsExit: true, note: cliNote,
		},
		{
			name: "Docker", engine: "docker", driver: "docker", grace: 30 * second, stop: "SIGTERM, and SIGKILL after 30 s",
			hasWait: true, ignoresPauseError: true,
		},
		{
			name: "Containerd", engine: "containerd", driver: "containerd", option: "address", stopKills: true,
			stop: "SIGKILL, the exit, and the removal of the task", hasWait: true,
		},
		{
			name: "Ctr", engine: "containerd", driver: "containerd", bundle: true, stopKills: true,
			stop: "`ctr containers kill`",
			note: "each command started ctr, with subcommands that ctr no longer has since containerd 1.0, and remove was a " +
				"second kill; tare talks to containerd directly",
		},
		runtime("Runc", "runc", runtimeNote),
		runtime("CRun", "crun", runtimeNote),
		runtime("Youki", "youki", runtimeNote+"; run had no --detach, so with a youki that stays in the foreground it "+
			"lasted until the program had ended"),
		{
			name: "CRI", engine: "cri", driver: "cri", option: "endpoint", grace: second,
			stop: "StopContainer without grace, and the end of the pod",
			note: "run was only CreateContainer: no container was ever started. The pod was created before it, untimed. " +
				"Image and program were those of contrib/container_config.json. " +
				"Here a container of this image is started, and its pod has a metric of its own",
		},
	}
}

// docker2017 is the type Docker of files that say binary.
func docker2017() driverType {
	return driverType{
		name: "Docker", engine: "docker", driver: "docker", stopKills: true, removeNeedsExit: true,
		stop: "`docker kill`, SIGKILL", note: cliNote,
	}
}

// typeOf returns the type of a driver, and whether there is one.
func typeOf(d driver) (driverType, bool) {
	all := types()
	i := slices.IndexFunc(all, func(t driverType) bool { return t.name == d.kind.text })
	switch {
	case i < 0:
		return driverType{}, false
	case d.usesBinaryKey && d.kind.text == "Docker":
		return docker2017(), true
	}
	return all[i], true
}

func typeNames() []string {
	var names []string
	for _, t := range types() {
		names = append(names, t.name)
	}
	return names
}
