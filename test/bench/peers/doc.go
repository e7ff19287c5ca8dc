// Peers measures FlexInfer Gateway beside other proxies, as processes on this
// machine: nginx, HAProxy, Envoy and a naive proxy of fasthttp's own client, in
// front of the same four engines that answer 200 bytes at once.
//
//	peers                       every row, by wrk; see -help
//	peers -rows naive,ours -load go -rounds 3 -duration 2s
//	peers -work events -rounds 1 -duration 1m
//
// Besides short chats there are other works, by clients of this program: bodies of
// 1 and 30 MB both ways, 1,000 streams of 50 events a second, TLS 1.3 connections
// with one request each, new and resumed, and chats over HTTP/2, 100 streams a
// connection. A row's req/s are bodies, events or connections then.
//
// Every proxy has as many workers as there are CPUs, keeps its connections and
// spreads the same 256 sessions over the engines by a consistent hash of
// X-Session-ID (the naive one takes the engines in turn). The rows are measured
// in turn, round after round, so that a busy neighbour meets all of them; the
// figures are medians over the rounds.
//
// CPU is utime+stime of the proxy's process tree from /proc, divided by the
// requests of wrk, or of this program's own client, which share the CPUs with
// engines and proxy: compare the rows of one run, never figures of two.
//
// A peer that is not installed is named and left out. Everything listens on
// loopback, is bounded in time and is ended by its process number.
package main
