module flexinfer.ai/gateway

go 1.27.0

toolchain go1.27.3

require (
	github.com/andybalholm/brotli v1.3.0
	github.com/fsnotify/fsnotify v1.10.1
	github.com/google/go-cmp v0.7.0
	github.com/klauspost/compress v1.20.4
	github.com/prometheus/client_golang v1.25.0
	github.com/valyala/fasthttp v1.78.0
	github.com/zeebo/xxh3 v1.1.0
	golang.org/x/sys v0.50.0
	k8s.io/api v0.37.1
	k8s.io/apimachinery v0.37.1
	sigs.k8s.io/controller-runtime v0.25.2
	sigs.k8s.io/gateway-api v1.7.0
	sigs.k8s.io/yaml v1.6.0
)
