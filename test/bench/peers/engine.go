package main

import (
	"bufio"
	"bytes"
	"fmt"
	"log"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// answer is what the engines say: 200 bytes, but for the paths below.
var answer = bytes.Repeat([]byte("0123456789"), 20)

const (
	bytesPath  = "/v1/bytes/" // with a number: so many bytes
	eventsPath = "/v1/events" // events until the client leaves
)

// eventsPerSecond is the rate of one stream of events.
const eventsPerSecond = 50

// large is what bytesPath answers with.
var large = bytes.Repeat([]byte("0123456789abcdef"), 30<<16)

// serveEngine is one request.
func serveEngine(ctx *fasthttp.RequestCtx) {
	path := string(ctx.Path())
	switch {
	case path == eventsPath:
		ctx.SetContentType("text/event-stream")
		ctx.SetBodyStreamWriter(sendEvents)
	case strings.HasPrefix(path, bytesPath):
		n, err := strconv.Atoi(path[len(bytesPath):])
		if err != nil || n < 0 || n > len(large) {
			ctx.Error("no such number of bytes", fasthttp.StatusNotFound)
			return
		}
		ctx.Response.SetBodyRaw(large[:n])
	default:
		ctx.SetBody(answer)
	}
}

// sendEvents writes events of about 100 bytes that say when they were sent.
func sendEvents(w *bufio.Writer) {
	filling := strings.Repeat("x", 64)
	for next := time.Now(); ; next = next.Add(time.Second / eventsPerSecond) {
		time.Sleep(time.Until(next))
		fmt.Fprintf(w, "data: %d %s\n\n", time.Now().UnixNano(), filling)
		if w.Flush() != nil {
			return
		}
	}
}

// serveEngines answers on each address until the process is ended.
func serveEngines(addresses []string) error {
	failed := make(chan error)
	for _, address := range addresses {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return err
		}
		s := &fasthttp.Server{
			Handler:               serveEngine,
			MaxRequestBodySize:    64 << 20,
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
