package kube

import "time"

// A Job makes pods until enough of them have succeeded.
type Job struct {
	Meta   `json:"metadata"`
	Spec   JobSpec   `json:"spec"`
	Status JobStatus `json:"status,omitzero"`
}

// A JobSpec is what a Job is to do. A nil pointer leaves the choice to the server.
type JobSpec struct {
	Parallelism  *int32            `json:"parallelism,omitempty"`
	Completions  *int32            `json:"completions,omitempty"`
	BackoffLimit *int32            `json:"backoffLimit,omitempty"`            // how often a pod that failed is made anew
	Deadline     *int64            `json:"activeDeadlineSeconds,omitempty"`   // until all pods are ended
	TTL          *int32            `json:"ttlSecondsAfterFinished,omitempty"` // seconds until a Job that has ended goes
	Suspend      *bool             `json:"suspend,omitempty"`
	Failures     *PodFailurePolicy `json:"podFailurePolicy,omitempty"`
	Template     PodTemplate       `json:"template"`
}

// A PodFailurePolicy says what the failure of a pod means for its Job.
type PodFailurePolicy struct {
	Rules []PodFailureRule `json:"rules"`
}

// A PodFailureRule is one of them: the first that fits counts.
type PodFailureRule struct {
	Action     string `json:"action"` // FailJob, Ignore or Count
	Conditions []struct {
		Type   string `json:"type"`   // such as DisruptionTarget
		Status string `json:"status"` // such as "True"
	} `json:"onPodConditions,omitempty"`
}

// A JobStatus is how far a Job has come.
type JobStatus struct {
	Active     int         `json:"active,omitempty"` // pods
	Succeeded  int         `json:"succeeded,omitempty"`
	Failed     int         `json:"failed,omitempty"`
	Conditions []Condition `json:"conditions,omitempty"` // Complete, Failed
	Started    time.Time   `json:"startTime,omitzero"`
	Completed  time.Time   `json:"completionTime,omitzero"`
}

// A PodTemplate is the pod that a Job makes.
type PodTemplate struct {
	Meta `json:"metadata"`
	Spec PodSpec `json:"spec"`
}

// A Pod is containers that run on one node.
type Pod struct {
	Meta   `json:"metadata"`
	Spec   PodSpec   `json:"spec"`
	Status PodStatus `json:"status,omitzero"`
}

// A PodSpec is how a pod is to be. A nil pointer leaves the choice to the server.
type PodSpec struct {
	Node           string            `json:"nodeName,omitempty"`
	NodeSelector   map[string]string `json:"nodeSelector,omitempty"`
	Affinity       *Affinity         `json:"affinity,omitempty"`
	Tolerations    []Toleration      `json:"tolerations,omitempty"`
	PriorityClass  string            `json:"priorityClassName,omitempty"`
	RuntimeClass   string            `json:"runtimeClassName,omitempty"`
	RestartPolicy  string            `json:"restartPolicy,omitempty"`
	ServiceAccount string            `json:"serviceAccountName,omitempty"`
	MountToken     *bool             `json:"automountServiceAccountToken,omitempty"`
	ServiceLinks   *bool             `json:"enableServiceLinks,omitempty"`
	Grace          *int64            `json:"terminationGracePeriodSeconds,omitempty"`
	Deadline       *int64            `json:"activeDeadlineSeconds,omitempty"`
	HostNetwork    bool              `json:"hostNetwork,omitempty"`
	HostPID        bool              `json:"hostPID,omitempty"`
	DNSPolicy      string            `json:"dnsPolicy,omitempty"`
	Security       *PodSecurity      `json:"securityContext,omitempty"`
	PullSecrets    []LocalReference  `json:"imagePullSecrets,omitempty"`
	InitContainers []Container       `json:"initContainers,omitempty"`
	Containers     []Container       `json:"containers"`
	Volumes        []Volume          `json:"volumes,omitempty"`
	Gates          []Gate            `json:"schedulingGates,omitempty"`
}

// A Gate keeps a pod from being scheduled until it is removed: see Client.Ungate. It needs Kubernetes 1.27.
type Gate struct {
	Name string `json:"name"`
}

// A LocalReference names an object of the same namespace.
type LocalReference struct {
	Name string `json:"name"`
}

// An Affinity says which nodes a pod may be on.
type Affinity struct {
	Node *NodeAffinity `json:"nodeAffinity,omitempty"`
}

// A NodeAffinity says which nodes a pod must be on.
type NodeAffinity struct {
	Required *NodeSelector `json:"requiredDuringSchedulingIgnoredDuringExecution,omitempty"`
}

// A NodeSelector fits a node that one of its terms fits.
type NodeSelector struct {
	Terms []NodeTerm `json:"nodeSelectorTerms"`
}

// A NodeTerm fits a node that all of its requirements fit.
type NodeTerm struct {
	Labels []Requirement `json:"matchExpressions,omitempty"`
	Fields []Requirement `json:"matchFields,omitempty"` // only metadata.name
}

// A Requirement compares a value with those given.
type Requirement struct {
	Key      string   `json:"key"`
	Operator string   `json:"operator"` // such as In
	Values   []string `json:"values,omitempty"`
}

// OnNode lets a pod be on the node of that name alone, while the scheduler still decides whether it fits there.
func OnNode(name string) *Affinity {
	term := NodeTerm{Fields: []Requirement{{Key: "metadata.name", Operator: "In", Values: []string{name}}}}
	return &Affinity{Node: &NodeAffinity{Required: &NodeSelector{Terms: []NodeTerm{term}}}}
}

// A Toleration lets a pod be on a node in spite of a taint.
type Toleration struct {
	Key      string `json:"key,omitempty"`      // "" = any, with Exists
	Operator string `json:"operator,omitempty"` // Equal (also ""), Exists
	Value    string `json:"value,omitempty"`
	Effect   string `json:"effect,omitempty"`            // "" = any
	Seconds  *int64 `json:"tolerationSeconds,omitempty"` // for NoExecute; nil = forever
}

// A PodSecurity is what all containers of a pod may do.
type PodSecurity struct {
	NonRoot *bool    `json:"runAsNonRoot,omitempty"`
	User    *int64   `json:"runAsUser,omitempty"`
	Group   *int64   `json:"runAsGroup,omitempty"`
	FSGroup *int64   `json:"fsGroup,omitempty"`
	Seccomp *Seccomp `json:"seccompProfile,omitempty"`
}

// A Seccomp is a filter of system calls.
type Seccomp struct {
	Type string `json:"type"` // RuntimeDefault, Unconfined or Localhost
}

// A Container is one container of a pod.
type Container struct {
	Name               string       `json:"name"`
	Image              string       `json:"image"`
	PullPolicy         string       `json:"imagePullPolicy,omitempty"`
	Command            []string     `json:"command,omitempty"`
	Args               []string     `json:"args,omitempty"`
	Dir                string       `json:"workingDir,omitempty"`
	Env                []EnvVar     `json:"env,omitempty"`
	Resources          Requirements `json:"resources,omitzero"`
	Mounts             []Mount      `json:"volumeMounts,omitempty"`
	TerminationMessage string       `json:"terminationMessagePath,omitempty"`
	TerminationPolicy  string       `json:"terminationMessagePolicy,omitempty"`
	Security           *Security    `json:"securityContext,omitempty"`
}

// An EnvVar is one variable of a container's environment.
type EnvVar struct {
	Name  string  `json:"name"`
	Value string  `json:"value,omitempty"`
	From  *EnvRef `json:"valueFrom,omitempty"`
}

// An EnvRef says where a value comes from.
type EnvRef struct {
	Field *FieldRef `json:"fieldRef,omitempty"`
}

// A FieldRef is a field of the pod itself.
type FieldRef struct {
	Path string `json:"fieldPath"` // such as spec.nodeName
}

// EnvField is a variable with a field of the pod, such as spec.nodeName.
func EnvField(name, path string) EnvVar {
	return EnvVar{Name: name, From: &EnvRef{Field: &FieldRef{Path: path}}}
}

// Requirements are what a container is promised, and what it may use at most.
type Requirements struct {
	Requests Resources `json:"requests,omitempty"`
	Limits   Resources `json:"limits,omitempty"`
}

// A Mount is where a container has a volume.
type Mount struct {
	Name     string `json:"name"`
	Path     string `json:"mountPath"`
	ReadOnly bool   `json:"readOnly,omitempty"`
}

// Security is what one container may do.
type Security struct {
	Privileged   *bool         `json:"privileged,omitempty"`
	Escalation   *bool         `json:"allowPrivilegeEscalation,omitempty"`
	ReadOnlyRoot *bool         `json:"readOnlyRootFilesystem,omitempty"`
	NonRoot      *bool         `json:"runAsNonRoot,omitempty"`
	User         *int64        `json:"runAsUser,omitempty"`
	Group        *int64        `json:"runAsGroup,omitempty"`
	Capabilities *Capabilities `json:"capabilities,omitempty"`
	Seccomp      *Seccomp      `json:"seccompProfile,omitempty"`
}

// Capabilities are those that a container has beside, or without, the usual ones.
type Capabilities struct {
	Add  []string `json:"add,omitempty"`
	Drop []string `json:"drop,omitempty"`
}

// A Volume is files that containers of a pod can have; one of the pointers is set.
type Volume struct {
	Name      string           `json:"name"`
	Empty     *EmptyDir        `json:"emptyDir,omitempty"`
	ConfigMap *ConfigMapVolume `json:"configMap,omitempty"`
	Secret    *SecretVolume    `json:"secret,omitempty"`
	Host      *HostPath        `json:"hostPath,omitempty"`
}

// A HostPath is a file or directory of the node.
type HostPath struct {
	Path string `json:"path"`
}

// An EmptyDir is a directory that goes with its pod.
type EmptyDir struct {
	Medium string `json:"medium,omitempty"`    // "Memory" = a tmpfs
	Limit  string `json:"sizeLimit,omitempty"` // a quantity; "" = none
}

// A ConfigMapVolume is the data of a ConfigMap as files.
type ConfigMapVolume struct {
	Name     string `json:"name"`
	Optional *bool  `json:"optional,omitempty"` // the pod starts without it, and has it about a minute after it is made
}

// A SecretVolume is the data of a Secret as files.
type SecretVolume struct {
	Name     string `json:"secretName"`
	Optional *bool  `json:"optional,omitempty"`
	Mode     *int32 `json:"defaultMode,omitempty"`
}

// A PodStatus is how far a pod has come.
type PodStatus struct {
	Phase          string            `json:"phase,omitempty"` // Pending, Running, Succeeded, Failed or Unknown
	Reason         string            `json:"reason,omitempty"`
	Message        string            `json:"message,omitempty"`
	Conditions     []Condition       `json:"conditions,omitempty"`
	HostIP         string            `json:"hostIP,omitempty"`
	IP             string            `json:"podIP,omitempty"`
	QOSClass       string            `json:"qosClass,omitempty"`
	Started        time.Time         `json:"startTime,omitzero"`
	InitContainers []ContainerStatus `json:"initContainerStatuses,omitempty"`
	Containers     []ContainerStatus `json:"containerStatuses,omitempty"`
}

// A ContainerStatus is how far a container has come.
type ContainerStatus struct {
	Name     string         `json:"name"`
	ID       string         `json:"containerID,omitempty"` // with the runtime's name, such as containerd://0123…
	Ready    bool           `json:"ready"`
	Restarts int            `json:"restartCount"`
	Image    string         `json:"image"`
	ImageID  string         `json:"imageID"`
	State    ContainerState `json:"state"`
	Before   ContainerState `json:"lastState"` // before its last restart
}

// A ContainerState has one pointer that is set, or none while nothing is known.
type ContainerState struct {
	Waiting    *Waiting    `json:"waiting,omitempty"`
	Running    *Running    `json:"running,omitempty"`
	Terminated *Terminated `json:"terminated,omitempty"`
}

// Waiting is why a container does not run yet.
type Waiting struct {
	Reason  string `json:"reason,omitempty"` // such as ImagePullBackOff
	Message string `json:"message,omitempty"`
}

// Running is since when a container runs.
type Running struct {
	Started time.Time `json:"startedAt,omitzero"`
}

// Terminated is how a container ended.
type Terminated struct {
	ExitCode int       `json:"exitCode"`
	Signal   int       `json:"signal,omitempty"`
	Reason   string    `json:"reason,omitempty"`  // such as OOMKilled
	Message  string    `json:"message,omitempty"` // its termination message
	Started  time.Time `json:"startedAt,omitzero"`
	Finished time.Time `json:"finishedAt,omitzero"`
}

// ContainerOf returns the status of a container, nil if there is none yet.
func (p *Pod) ContainerOf(name string) *ContainerStatus {
	for i := range p.Status.Containers {
		if p.Status.Containers[i].Name == name {
			return &p.Status.Containers[i]
		}
	}
	return nil
}
