// Controller is the control plane of FlexInfer Gateway.
//
//	controller run                             follow a cluster and keep its gateway pods served
//	controller standalone --manifests DIR...   serve YAML files, in one process, without a cluster
//	controller lint FILE|DIR...                check the same files
//	controller snapshot FILE|DIR...            write what a gateway process would serve
//
// Run (package internal/control) starts in this order: the admin port, with /readyz
// at 503 and the reason; the CA in its Secret; every cache; a first translation of
// everything; then snapshots are served and /readyz turns 200, on every replica,
// and the replicas elect who writes. SIGTERM or interrupt ends what is being
// written, gives the Lease up and cuts the streams: gateway pods go on with what
// they have and follow another replica.
//
// The other three read the same files with the same code: every .yaml, .yml and .json
// file below a directory, except hidden ones, is decoded strictly and translated
// by pkg/translate. A mistake becomes a finding with file, object, field and
// remedy; everything else is served.
//
// Standalone start-up: flags and knobs are read; the admin port opens, with
// /readyz at 503; the files are read, translated, merged into one Config (all
// Gateways share the process's address, so a port belongs to the oldest one that
// names it) and served; /readyz turns 200. From then on the files are watched: a
// burst of changes becomes one translation, a Config equal to the one in force
// changes nothing, and only findings that are new or gone are printed.
//
// Shutdown is that of cmd/gateway: SIGTERM or interrupt drains, a second signal
// ends at once.
package main
