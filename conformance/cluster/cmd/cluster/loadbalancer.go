package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// runLoadBalancer gives Services of type LoadBalancer an address of the pool, in
// their status; kube-proxy serves it. It works until ctx ends.
func runLoadBalancer(ctx context.Context, l layout, out io.Writer) error {
	log := slog.New(slog.NewTextHandler(out, nil))
	client, err := l.client()
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	services := factory.Core().V1().Services()
	changed := make(chan struct{}, 1)
	signal := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	if _, err := services.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { signal() },
		UpdateFunc: func(any, any) { signal() },
		DeleteFunc: func(any) { signal() },
	}); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), services.Informer().HasSynced) {
		return ctx.Err()
	}
	retry := time.NewTicker(time.Second)
	defer retry.Stop()
	again := true
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-retry.C:
			if !again {
				continue
			}
		}
		cached, err := services.Lister().List(labels.Everything())
		if err != nil {
			return err
		}
		again = balance(ctx, client, cached, log) != nil
	}
}

// balance writes the statuses that must change, if by the cache any must. The
// cache may lack what was written last: an address that it takes for free is
// another Service's by now. So what is written goes by the API server's own list.
func balance(ctx context.Context, client kubernetes.Interface, cached []*corev1.Service, log *slog.Logger) error {
	pool := netip.MustParsePrefix(poolNetwork)
	if len(assign(cached, pool)) == 0 {
		return nil
	}
	list, err := client.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		log.Info("Services not read", "error", err)
		return err
	}
	current := make([]*corev1.Service, len(list.Items))
	for i := range list.Items {
		current[i] = &list.Items[i]
	}
	var failed error
	for _, service := range assign(current, pool) {
		_, err := client.CoreV1().Services(service.Namespace).UpdateStatus(ctx, service, metav1.UpdateOptions{})
		failed = errors.Join(failed, err)
		log.Info("status written", "service", service.Namespace+"/"+service.Name, "ingress", service.Status.LoadBalancer.Ingress, "error", err)
	}
	return failed
}

// assign returns copies of the Services whose status must change: an address for
// those without, the one asked for by spec.loadBalancerIP if it is of the pool and
// free, and none for those that are no load balancers any more. Services with a
// loadBalancerClass are somebody else's. Older Services go first.
func assign(services []*corev1.Service, pool netip.Prefix) []*corev1.Service {
	services = slices.Clone(services)
	slices.SortFunc(services, func(a, b *corev1.Service) int {
		if order := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); order != 0 {
			return order
		}
		return slices.Compare([]string{a.Namespace, a.Name}, []string{b.Namespace, b.Name})
	})
	used := map[string]bool{}
	for _, service := range services {
		if balanced(service) {
			for _, ingress := range service.Status.LoadBalancer.Ingress {
				used[ingress.IP] = true
			}
		}
	}
	var changed []*corev1.Service
	for _, service := range services {
		has := len(service.Status.LoadBalancer.Ingress) > 0
		switch {
		case service.Spec.LoadBalancerClass != nil || has == balanced(service):
			continue
		case has:
			service = service.DeepCopy()
			service.Status.LoadBalancer = corev1.LoadBalancerStatus{}
		default:
			address := choose(service.Spec.LoadBalancerIP, pool, used)
			if address == "" {
				continue // all are taken: a deleted Service frees one
			}
			used[address] = true
			service = service.DeepCopy()
			service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: address}}
		}
		changed = append(changed, service)
	}
	return changed
}

func balanced(service *corev1.Service) bool {
	return service.Spec.Type == corev1.ServiceTypeLoadBalancer && service.DeletionTimestamp == nil
}

// choose is the wanted address, or the first free one when none is wanted; "" when
// it is not to be had.
func choose(wanted string, pool netip.Prefix, used map[string]bool) string {
	if wanted != "" {
		address, err := netip.ParseAddr(wanted)
		if err != nil || !pool.Contains(address) || used[wanted] {
			return ""
		}
		return wanted
	}
	// Neither the network's own address nor, last, the broadcast one.
	for address := pool.Addr().Next(); pool.Contains(address.Next()); address = address.Next() {
		if text := address.String(); !used[text] {
			return text
		}
	}
	return ""
}
