// Package h2spec runs the HTTP/2 conformance cases of h2spec against the product
// and judges it by net/http, whose server speaks HTTP/2 for it.
//
// `controller standalone` serves as a process, with an engine behind it; beside it
// stands a bare net/http server of the same Go version with the engine's handler.
// Both get every case of the groups generic, http2 and hpack, strict ones too, in
// clear text (prior knowledge) and over TLS. A case that the product fails or skips
// and net/http passes fails the test; what both do not pass is listed. Cases wait
// for answers by the clock, so one that fails is tried again, on both sides alike.
//
// It is a module of its own so that h2spec stays out of the product's go.mod; it
// imports nothing of the product.
package h2spec
