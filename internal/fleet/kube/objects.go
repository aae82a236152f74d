package kube

import "time"

// LabelRun is the label by which everything that a fleet makes is found again; its value is the fleet's ID.
const LabelRun = "tare.run"

// An Object is one thing that the API server keeps: a pointer to one of the kinds below.
type Object interface {
	meta() *Meta
	kind() kind
}

// A kind is where the API server keeps objects of one kind.
type kind struct {
	name       string // such as "Job"
	api        string // such as "batch/v1"
	resource   string // such as "jobs"
	namespaced bool
}

// The kinds. What a kind has and tare does not use is not here, and is lost when such an object is read.
var (
	nodes      = kind{"Node", "v1", "nodes", false}
	namespaces = kind{"Namespace", "v1", "namespaces", false}
	pods       = kind{"Pod", "v1", "pods", true}
	configMaps = kind{"ConfigMap", "v1", "configmaps", true}
	secrets    = kind{"Secret", "v1", "secrets", true}
	quotas     = kind{"ResourceQuota", "v1", "resourcequotas", true}
	limits     = kind{"LimitRange", "v1", "limitranges", true}
	events     = kind{"Event", "v1", "events", true}
	jobs       = kind{"Job", "batch/v1", "jobs", true}
)

// Meta is what all objects have.
type Meta struct {
	Name            string            `json:"name,omitempty"`
	Namespace       string            `json:"namespace,omitempty"` // "" = the client's, or none if the kind has none
	UID             string            `json:"uid,omitempty"`
	ResourceVersion string            `json:"resourceVersion,omitempty"`
	Labels          map[string]string `json:"labels,omitempty"`
	Annotations     map[string]string `json:"annotations,omitempty"`
	Finalizers      []string          `json:"finalizers,omitempty"`
	Owners          []Owner           `json:"ownerReferences,omitempty"`
	Created         time.Time         `json:"creationTimestamp,omitzero"` // by the server's clock
	Deleted         time.Time         `json:"deletionTimestamp,omitzero"` // set = it goes away at that time
}

// An Owner is an object whose removal removes the object that names it.
type Owner struct {
	API        string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
	Controller bool   `json:"controller,omitempty"`
}

// OwnerOf is the reference to an object that the server has made.
func OwnerOf(o Object) Owner {
	return Owner{API: o.kind().api, Kind: o.kind().name, Name: o.meta().Name, UID: o.meta().UID}
}

// A Node is a machine of the cluster.
type Node struct {
	Meta `json:"metadata"`
	Spec struct {
		Unschedulable bool    `json:"unschedulable,omitempty"` // cordoned
		Taints        []Taint `json:"taints,omitempty"`
	} `json:"spec"`
	Status struct {
		Capacity    Resources   `json:"capacity,omitempty"`
		Allocatable Resources   `json:"allocatable,omitempty"`
		Conditions  []Condition `json:"conditions,omitempty"`
		Addresses   []struct {
			Type    string `json:"type"` // such as "InternalIP"
			Address string `json:"address"`
		} `json:"addresses,omitempty"`
		Images []struct { // at most 50 of them, by default
			Names []string `json:"names"`
		} `json:"images,omitempty"`
		Info struct {
			Arch    string `json:"architecture"`
			Boot    string `json:"bootID"`
			Kernel  string `json:"kernelVersion"`
			OS      string `json:"osImage"`
			System  string `json:"operatingSystem"` // such as "linux"
			Runtime string `json:"containerRuntimeVersion"`
			Kubelet string `json:"kubeletVersion"`
		} `json:"nodeInfo"`
	} `json:"status"`
}

// A Taint keeps pods that do not tolerate it off a node.
type Taint struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect"` // NoSchedule, PreferNoSchedule or NoExecute
}

// A Condition is what is true of an object.
type Condition struct {
	Type    string    `json:"type"`   // such as "Ready"
	Status  string    `json:"status"` // "True", "False" or "Unknown"
	Reason  string    `json:"reason,omitempty"`
	Message string    `json:"message,omitempty"`
	Since   time.Time `json:"lastTransitionTime,omitzero"`
}

// ConditionOf returns the condition of a type, nil if there is none.
func ConditionOf(all []Condition, kind string) *Condition {
	for i := range all {
		if all[i].Type == kind {
			return &all[i]
		}
	}
	return nil
}

// A Namespace holds objects; its labels have the level of pod security.
type Namespace struct {
	Meta   `json:"metadata"`
	Status struct {
		Phase string `json:"phase,omitempty"` // "Active" or "Terminating"
	} `json:"status,omitzero"`
}

// A ConfigMap is data that pods can mount, at most 1 MiB in all.
type ConfigMap struct {
	Meta      `json:"metadata"`
	Immutable bool              `json:"immutable,omitempty"`
	Data      map[string]string `json:"data,omitempty"`
	Binary    map[string][]byte `json:"binaryData,omitempty"`
}

// A Secret is a ConfigMap that fewer may read.
type Secret struct {
	Meta      `json:"metadata"`
	Immutable bool              `json:"immutable,omitempty"`
	Type      string            `json:"type,omitempty"` // "" = Opaque
	Data      map[string][]byte `json:"data,omitempty"`
}

// A ResourceQuota bounds what a namespace may have in all.
type ResourceQuota struct {
	Meta `json:"metadata"`
	Spec struct {
		Hard   Resources `json:"hard,omitempty"`
		Scopes []string  `json:"scopes,omitempty"` // it counts only some pods
		// Selector is set if it counts only some pods by something else, such as their priority.
		Selector *struct{} `json:"scopeSelector,omitempty"`
	} `json:"spec"`
	Status struct {
		Hard Resources `json:"hard,omitempty"`
		Used Resources `json:"used,omitempty"`
	} `json:"status,omitzero"`
}

// A LimitRange bounds what one container or pod of a namespace may have, and gives defaults.
type LimitRange struct {
	Meta `json:"metadata"`
	Spec struct {
		Limits []struct {
			Type           string    `json:"type"` // Container, Pod or PersistentVolumeClaim
			Max            Resources `json:"max,omitempty"`
			Min            Resources `json:"min,omitempty"`
			Default        Resources `json:"default,omitempty"`
			DefaultRequest Resources `json:"defaultRequest,omitempty"`
		} `json:"limits"`
	} `json:"spec"`
}

// An Event is something that the cluster says about an object, such as why a Job has no pod. It is kept for an hour.
type Event struct {
	Meta     `json:"metadata"`
	Involved struct {
		Kind string `json:"kind"`
		Name string `json:"name"`
		UID  string `json:"uid"`
	} `json:"involvedObject"`
	Type    string    `json:"type"` // "Normal" or "Warning"
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Count   int       `json:"count,omitempty"`
	Last    time.Time `json:"lastTimestamp,omitzero"`
}

func (m *Meta) meta() *Meta { return m }

func (*Node) kind() kind          { return nodes }
func (*Namespace) kind() kind     { return namespaces }
func (*Pod) kind() kind           { return pods }
func (*ConfigMap) kind() kind     { return configMaps }
func (*Secret) kind() kind        { return secrets }
func (*ResourceQuota) kind() kind { return quotas }
func (*LimitRange) kind() kind    { return limits }
func (*Event) kind() kind         { return events }
func (*Job) kind() kind           { return jobs }
