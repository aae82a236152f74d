package bench

// AgentImage is the reference of tare's own image, whose only program is the
// agent.
const AgentImage = "agent"

// DataDir is the data directory of a container whose Spec has a Storage. The container
// may write to it. It is empty when the container is created, and removed with it,
// unless Spec.DataName is set.
const DataDir = "/tare-data"

// DefaultShm is the size of /dev/shm in engines of tare's own, in bytes: that of Docker and others.
const DefaultShm = 64 << 20

// A Spec says what an Engine is to run: everything that can be a factor.
// The zero value of a field means "the driver's documented default".
type Spec struct {
	Image  string   `json:"image,omitempty"` // reference; empty = tare's own agent image
	Argv   []string `json:"argv,omitempty"`  // program and arguments; empty = the image's own
	Env    []string `json:"env,omitempty"`   // KEY=VALUE, added to the image's
	Dir    string   `json:"dir,omitempty"`   // working directory inside; empty = the image's, else /
	Mounts []Mount  `json:"mounts,omitempty"`
	// Network is "none" (own namespace, loopback only), "host", "bridge", "macvlan",
	// "slirp4netns" or "pasta"; empty = none, but for native and cri the host's.
	Network string `json:"network,omitempty"`
	// Reach says how a client reaches the container: "published" (by a port of the host),
	// "peer" (from a second container) or "socket" (by a Unix socket in a directory that both
	// see); empty = by its own address.
	Reach string `json:"reach,omitempty"`
	Ports []Port `json:"ports,omitempty"`
	// Storage is the storage under DataDir: "layer" (the container's own writable layer),
	// "volume" (of the engine), "bind" (a directory of the host) or "tmpfs"; empty = the
	// workload keeps no data.
	Storage string `json:"storage,omitempty"`
	// Data is the host directory for the data of a plain process or of a "bind"; empty = the
	// run's own.
	Data string `json:"data,omitempty"`
	// DataName names data that outlive the container, see DataHolder; empty = they are
	// removed with it.
	DataName    string   `json:"data_name,omitempty"`
	Runtime     string   `json:"runtime,omitempty"`     // OCI runtime under an engine that has several
	Snapshotter string   `json:"snapshotter,omitempty"` // snapshotter under an engine that has several
	Shm         int64    `json:"shm_bytes,omitempty"`   // size of /dev/shm; 0 = the engine's default
	Limits      Limits   `json:"limits,omitzero"`
	Security    Security `json:"security,omitzero"`
	// Member makes it a container of a project, on the project's network: see Projecter. It goes with
	// network bridge; nil = none. A workload sets it in its trials, and no plan has it.
	Member *Membership `json:"-"`
}

// A Mount is a file system made visible inside.
type Mount struct {
	Type     string `json:"type"`             // "bind" or "tmpfs"
	Source   string `json:"source,omitempty"` // absolute host path of a bind mount
	Target   string `json:"target"`           // absolute path inside
	ReadOnly bool   `json:"read_only,omitempty"`
	Size     int64  `json:"size_bytes,omitempty"` // of a tmpfs; 0 = the kernel's default
}

// A Port is a port inside that a client outside reaches.
type Port struct {
	Container uint16 `json:"container"`
	Host      uint16 `json:"host,omitempty"`    // of the host; 0 = chosen by the engine
	Address   string `json:"address,omitempty"` // of the host, on which it is published; empty = loopback
	Protocol  string `json:"protocol"`          // "tcp" or "udp"
}

// Limits bound what the container may use. Zero means no limit.
type Limits struct {
	CPUs   float64 `json:"cpus,omitempty"`         // quota, in CPUs: 0.5 is half of one
	CPUSet string  `json:"cpuset,omitempty"`       // kernel list format, such as "0-1,3"
	Memory int64   `json:"memory_bytes,omitempty"` // RAM; swap is not limited by it
	Pids   int64   `json:"pids,omitempty"`         // processes and threads
}

// SeccompDocker is the default profile that Docker and containerd share. tare applies
// the same one in every engine.
const SeccompDocker = "docker"

// Security is what protects the host from the container.
type Security struct {
	Seccomp         string `json:"seccomp,omitempty"` // "unconfined"; SeccompDocker; empty = the engine's default
	UserNS          bool   `json:"userns,omitempty"`  // a user namespace of its own
	ReadOnly        bool   `json:"read_only,omitempty"`
	NoNewPrivileges bool   `json:"no_new_privileges,omitempty"`
	Privileged      bool   `json:"privileged,omitempty"`
}
