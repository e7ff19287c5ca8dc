package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

func (l layout) client() (*kubernetes.Clientset, error) {
	config, err := clientcmd.BuildConfigFromFlags("", l.kubeconfig())
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

// waitReady returns once the node takes pods and CoreDNS answers. Its error says
// which of them does not, and shows the lines of the component that must make it so.
func (l layout) waitReady(ctx context.Context) error {
	client, err := l.client()
	if err != nil {
		return err
	}
	for _, wait := range []struct {
		check func(context.Context, kubernetes.Interface) error
		by    string // the component whose log tells why not
	}{
		{nodeReady, "kubelet"},
		{coreDNSReady, "kubelet"},
		{apiServiceRouted, "kube-proxy"},
	} {
		err := poll(ctx, startTimeout, func(ctx context.Context) error { return wait.check(ctx, client) })
		if err != nil {
			return fmt.Errorf("%w\nthe last lines of %s:\n%s", err, l.log(wait.by), lastLines(l.log(wait.by), 15))
		}
	}
	return nil
}

// poll calls until there is no error, and returns the last one after the timeout.
func poll(ctx context.Context, timeout time.Duration, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		err := call(ctx)
		if err == nil {
			return nil
		}
		if pause(ctx, 100*time.Millisecond) != nil {
			return fmt.Errorf("after %s: %w", timeout, err)
		}
	}
}

func nodeReady(ctx context.Context, client kubernetes.Interface) error {
	node, err := client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("the node is not registered: %w", err)
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status != corev1.ConditionTrue {
			return fmt.Errorf("the node is not ready: %s", condition.Message)
		}
	}
	if len(node.Spec.Taints) > 0 {
		return fmt.Errorf("the node takes no pods: it has the taint %s", node.Spec.Taints[0].Key)
	}
	return nil
}

func coreDNSReady(ctx context.Context, client kubernetes.Interface) error {
	deployment, err := client.AppsV1().Deployments("kube-system").Get(ctx, "coredns", metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("CoreDNS is not there: %w", err)
	}
	if deployment.Status.ReadyReplicas > 0 {
		return nil
	}
	pods, err := client.CoreV1().Pods("kube-system").List(ctx, metav1.ListOptions{LabelSelector: "k8s-app=kube-dns"})
	if err != nil {
		return err
	}
	reason := "it has no pod"
	for _, pod := range pods.Items {
		reason = "its pod is " + string(pod.Status.Phase)
		for _, container := range pod.Status.ContainerStatuses {
			if waiting := container.State.Waiting; waiting != nil {
				reason = waiting.Reason + ": " + waiting.Message
			}
		}
	}
	return errors.New("CoreDNS is not ready: " + reason)
}

// apiServiceRouted asks for the API server at its Service's address, as pods do:
// kube-proxy's rules are in force.
func apiServiceRouted(ctx context.Context, _ kubernetes.Interface) error {
	if err := answers("https://"+apiService+"/readyz", nil)(ctx); err != nil {
		return fmt.Errorf("kube-proxy does not route to Services: %w", err)
	}
	return nil
}
