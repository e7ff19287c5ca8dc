package main

import (
	"bytes"
	"fmt"
	"log"
	"net"
	"sync/atomic"

	"github.com/valyala/fasthttp"
)

// answer is what the engines say to everything: 200 bytes.
var answer = bytes.Repeat([]byte("0123456789"), 20)

// serveEngines answers on each address until the process is ended.
func serveEngines(addresses []string) error {
	failed := make(chan error)
	for _, address := range addresses {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return err
		}
		s := &fasthttp.Server{
			Handler:               func(ctx *fasthttp.RequestCtx) { ctx.SetBody(answer) },
			NoDefaultServerHeader: true,
			Logger:                log.Default(),
		}
		go func() { failed <- s.Serve(l) }()
	}
	return <-failed
}

// serveNaive is the least that fasthttp needs to be a proxy: bodies whole, no
// routing, engines in turn. What it costs is the yardstick of `make bench-check`.
func serveNaive(listen string, engines []string) error {
	clients := make([]*fasthttp.HostClient, len(engines))
	for i, e := range engines {
		clients[i] = &fasthttp.HostClient{
			Addr: e, MaxConns: 4096, NoDefaultUserAgentHeader: true,
			ReadBufferSize: 16 << 10, WriteBufferSize: 16 << 10,
		}
	}
	var turn atomic.Uint32
	s := &fasthttp.Server{
		Handler: func(ctx *fasthttp.RequestCtx) {
			c := clients[int(turn.Add(1))%len(clients)]
			if err := c.Do(&ctx.Request, &ctx.Response); err != nil {
				ctx.Error(fmt.Sprintf("engine: %v", err), fasthttp.StatusBadGateway)
			}
		},
		ReadBufferSize: 16 << 10, WriteBufferSize: 16 << 10,
		NoDefaultServerHeader: true, NoDefaultDate: true,
	}
	return s.ListenAndServe(listen)
}
