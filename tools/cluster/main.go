// Command cluster is a whole Kubernetes in one program, for tests: etcd, the control plane, kubelet and kubectl. The
// first argument chooses; the rest are those of the chosen program. scripts/cluster builds and starts it.
//
// Its go.mod is that of k8s.io/kubernetes with the versions of its parts filled in.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	commands := map[string]func() *cobra.Command{
		"kube-apiserver":          apiserver.NewAPIServerCommand,
		"kube-controller-manager": controllers.NewControllerManagerCommand,
		"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
		"kubelet":                 func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
		"kubectl":                 kubectl.NewDefaultKubectlCommand,
	}
	name := ""
	if len(os.Args) > 1 {
		name = os.Args[1]
		os.Args = os.Args[1:]
	}
	if name == "etcd" {
		etcdmain.Main(os.Args)
		return
	}
	command := commands[name]
	if command == nil {
		fmt.Fprintln(os.Stderr,
			"cluster: say etcd, kubectl, kubelet, kube-apiserver, kube-controller-manager or kube-scheduler")
		os.Exit(2)
	}
	os.Exit(cli.Run(command()))
}
