package cli_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tare-bench/tare/internal/fleet"
	"github.com/tare-bench/tare/internal/fleet/kube"
)

// TestFleetOnKwok is TestFleetOfThousands with the API server, controllers and scheduler of Kubernetes:
//
//	TARE_TEST_CLUSTER=$(scripts/cluster up 1) && scripts/cluster kwok 1000
//	TARE_TEST_KWOK=1000 go test -timeout 60m -run FleetOnKwok ./internal/cli    # and TARE_TEST_SEED=1
//
// Nodes of kwok only seem to run pods, so the test is the kubelet of all of them.
func TestFleetOnKwok(t *testing.T) {
	config, nodes := os.Getenv("TARE_TEST_CLUSTER"), os.Getenv("TARE_TEST_KWOK")
	if config == "" || nodes == "" {
		t.Skip("TARE_TEST_CLUSTER and TARE_TEST_KWOK name no kubeconfig and number of nodes")
	}
	count, err := strconv.Atoi(nodes)
	seed, seedErr := strconv.Atoi("0" + os.Getenv("TARE_TEST_SEED"))
	if err = errors.Join(err, seedErr); err != nil {
		t.Fatal(err)
	}
	space := fmt.Sprintf("tare-test-kwok-%d", seed) // the one before may still be on its way out
	spaces := []string{space}
	if count > 2500 {
		spaces = nil
		for i := range (count + 2499) / 2500 {
			spaces = append(spaces, fmt.Sprintf("%s-%d", space, i))
		}
	}
	for _, name := range spaces {
		kubectl(t, "create", "namespace", name)
		t.Cleanup(func() { kubectl(t, "delete", "namespace", name, "--wait=false") })
	}
	f := newPlayedFleet("fake", count, seed)
	startKubelets(t, config, spaces, f.rate)
	audit := newAudit(t, filepath.Join(filepath.Dir(config), "log", "audit.log"))
	p := newTestEnv(t)
	p.env = append(p.env, "KUBECONFIG="+config)
	f.run(t, p, audit.requests, time.Hour, "--nodes", "type=kwok", "--toleration", "kwok.x-k8s.io/node=fake", "--namespace",
		space)
	for _, name := range spaces {
		left := kubectl(t, "-n", name, "get", "jobs,pods,configmaps,secrets", "-l", "tare.run", "-o", "name")
		if left != "" {
			t.Errorf("left in the cluster:\n%.500s", left)
		}
	}
}

// An audit is what the API server notes of its requests.
type audit struct {
	t    *testing.T
	name string
	read int64 // bytes
}

func newAudit(t *testing.T, name string) *audit {
	t.Helper()
	a := &audit{t: t, name: name}
	a.requests()
	return a
}

// requests are the times of those that tare has sent since the last call.
func (a *audit) requests() (all []time.Time) {
	a.t.Helper()
	file, err := os.Open(a.name)
	if err != nil {
		a.t.Fatal(err)
	}
	defer func() { _ = file.Close() }() // it was only read
	if _, err := file.Seek(a.read, 0); err != nil {
		a.t.Fatal(err)
	}
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return all // the last line may be half written
		}
		a.read += int64(len(line))
		var event struct {
			UserAgent string
			Time      time.Time `json:"requestReceivedTimestamp"`
		}
		if err := json.Unmarshal(line, &event); err != nil {
			a.t.Fatal(err)
		}
		if strings.HasPrefix(event.UserAgent, "tare/") {
			all = append(all, event.Time)
		}
	}
}

// The kubelets are those of all nodes: they end pods that have seen their start signal, and have their logs.
type kubelets struct {
	t    *testing.T
	c    *kube.Client
	http *http.Client
	of   rate

	mu   sync.Mutex
	pods map[string]*kube.Pod // those that run, by namespace and name
	seen map[string]bool      // pods that have ended, too
	logs map[string][]byte
	maps map[string]*kube.ConfigMap // those that were read
}

func startKubelets(t *testing.T, config string, spaces []string, of rate) {
	t.Helper()
	c, err := kube.Open(kube.Options{Kubeconfig: config, QPS: 200, Tool: "kubelets"})
	if err != nil {
		t.Fatal(err)
	}
	reach, err := clientcmd.BuildConfigFromFlags("", config)
	if err != nil {
		t.Fatal(err)
	}
	reach.UserAgent = "kubelets"
	client, err := rest.HTTPClientFor(reach)
	if err != nil {
		t.Fatal(err)
	}
	k := &kubelets{
		t: t, c: c, http: client, of: of, pods: map[string]*kube.Pod{}, seen: map[string]bool{}, logs: map[string][]byte{},
		maps: map[string]*kube.ConfigMap{},
	}
	server, err := url.Parse(c.Server())
	if err != nil {
		t.Fatal(err)
	}
	logs := httptest.NewUnstartedServer(http.HandlerFunc(k.log))
	_ = logs.Listener.Close() // of another address
	if logs.Listener, err = net.Listen("tcp", net.JoinHostPort(server.Hostname(), "10247")); err != nil {
		t.Fatal(err)
	}
	logs.StartTLS()
	t.Cleanup(logs.Close)
	var all sync.WaitGroup
	for _, space := range spaces {
		all.Go(func() { _ = c.Watch(t.Context(), space, kube.LabelRun, k.see) }) // it ends with the test
	}
	for range 8 {
		all.Go(k.play)
	}
	t.Cleanup(all.Wait)
}

// log answers for the log of a pod, as the API server asks a kubelet for it.
func (k *kubelets) log(w http.ResponseWriter, r *http.Request) {
	name, ok := strings.CutPrefix(r.URL.Path, "/containerLogs/")
	name = strings.TrimSuffix(name, "/tare")
	k.mu.Lock()
	text, running := k.logs[name], k.pods[name] != nil
	k.mu.Unlock()
	if !ok || text == nil && !running {
		http.NotFound(w, r)
		return
	}
	_, _ = w.Write(text) // the server may have gone
}

func (k *kubelets) see(change kube.Change) error {
	name := change.Pod.Namespace + "/" + change.Pod.Name
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case change.Gone:
		delete(k.pods, name)
		delete(k.logs, name)
	case change.Pod.Status.Phase == "Running" && !k.seen[name]:
		k.pods[name], k.seen[name] = change.Pod, true
	}
	return nil
}

// play ends one pod after the other, until the test ends.
func (k *kubelets) play() {
	ctx := k.t.Context()
	for ctx.Err() == nil {
		pod := k.take()
		if pod == nil {
			time.Sleep(500 * time.Millisecond)
			continue
		}
		if err := k.end(ctx, pod); err != nil && ctx.Err() == nil {
			k.t.Errorf("pod %s: %v", pod.Name, err)
		}
	}
}

// take returns a pod that has got its start signal; nil if there is none.
func (k *kubelets) take() *kube.Pod {
	k.mu.Lock()
	defer k.mu.Unlock()
	given := map[string]bool{}
	for name, pod := range k.pods {
		signal := signalOf(pod)
		if _, asked := given[signal]; !asked {
			_, err := k.get(signal)
			given[signal] = err == nil
		}
		if given[signal] {
			delete(k.pods, name)
			return pod
		}
	}
	return nil
}

// get reads a ConfigMap, which never changes. The lock is held.
func (k *kubelets) get(name string) (*kube.ConfigMap, error) {
	if m := k.maps[name]; m != nil {
		return m, nil
	}
	space, of, _ := strings.Cut(name, "/")
	m := &kube.ConfigMap{Meta: kube.Meta{Name: of, Namespace: space}}
	err := k.c.Get(k.t.Context(), m)
	if err == nil {
		k.maps[name] = m
	}
	return m, err
}

// rootOf names the object to which all of a pod's fleet belongs in its namespace.
func rootOf(pod *kube.Pod) string { return pod.Namespace + "/tare-" + pod.Labels[kube.LabelRun] }

// signalOf names the ConfigMap for which a pod waits.
func signalOf(pod *kube.Pod) string { return rootOf(pod) + "-start-" + pod.Labels["tare.pass"] }

// end writes the log of a pod that has measured all its rounds, and tells the API server that it has ended.
func (k *kubelets) end(ctx context.Context, pod *kube.Pod) error {
	k.mu.Lock()
	signal, err := k.get(signalOf(pod))
	order, orderErr := k.get(rootOf(pod) + "-order")
	k.mu.Unlock()
	p := playedPod{
		node: pod.Spec.Node, now: time.Now(), order: []byte(order.Data[fleet.OrderFile]),
		source: []byte(order.Data[fleet.SourceFile]),
	}
	if err == nil {
		err = json.Unmarshal([]byte(signal.Data[fleet.StartFile]), &p.start)
	}
	if err := errors.Join(err, orderErr); err != nil {
		return err
	}
	var text bytes.Buffer
	digest, err := p.write(ctx, &text, k.of)
	if err != nil {
		return err
	}
	k.mu.Lock()
	k.logs[pod.Namespace+"/"+pod.Name] = text.Bytes()
	k.mu.Unlock()
	return k.succeeded(ctx, pod, string(digest.Message()))
}

// succeeded tells the API server that a pod has ended.
func (k *kubelets) succeeded(ctx context.Context, pod *kube.Pod, message string) error {
	now := time.Now().UTC().Format(time.RFC3339)
	image := pod.Spec.Containers[0].Image
	text, err := json.Marshal(map[string]any{"status": map[string]any{
		"phase": "Succeeded",
		"containerStatuses": []any{map[string]any{
			"name": "tare", "image": image, "imageID": "sha256:played", "ready": false, "restartCount": 0,
			"state": map[string]any{"terminated": map[string]any{
				"exitCode": 0, "reason": "Completed", "message": message, "startedAt": now, "finishedAt": now,
			}},
		}},
	}})
	if err != nil {
		return err
	}
	address, err := url.JoinPath(k.c.Server(), "api/v1/namespaces", pod.Namespace, "pods", pod.Name, "status")
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPatch, address, bytes.NewReader(text))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/merge-patch+json")
	answer, err := k.http.Do(r)
	if err != nil {
		return err
	}
	_ = answer.Body.Close() // the status says it
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the API server answers %s", answer.Status)
	}
	return nil
}
