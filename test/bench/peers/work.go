package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// work is another load than chats, sent by this program.
type work struct {
	load    load
	secure  bool
	without string // a row that cannot do it
}

// works are what there is besides "chat". A request is what the table counts: one
// body, one event, one connection with one request on it.
var works = map[string]work{
	"up-1m":       {load: ownLoad([][]byte{upload(1 << 20)}, 16)},
	"up-30m":      {load: ownLoad([][]byte{upload(30 << 20)}, 4)},
	"down-1m":     {load: ownLoad([][]byte{get(fmt.Sprintf("%s%d", bytesPath, 1<<20), 0)}, 16)},
	"down-30m":    {load: ownLoad([][]byte{get(fmt.Sprintf("%s%d", bytesPath, 30<<20), 0)}, 4)},
	"events":      {load: eventLoad(manyStreams), without: "naive"},
	"events-few":  {load: eventLoad(fewStreams), without: "naive"},
	"tls-new":     {load: handshakes(false), secure: true},
	"tls-resumed": {load: handshakes(true), secure: true},
	"http2":       {load: http2Load, secure: true},
}

// workNames are the names in the order of the documentation.
func workNames() []string {
	return []string{"chat", "up-1m", "up-30m", "down-1m", "down-30m", "events", "events-few", "tls-new", "tls-resumed", "http2"}
}

// get is a GET request of a session.
func get(path string, session int) []byte {
	return fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\nX-Session-ID: session-%d\r\n\r\n", path, hostname(0), session)
}

// upload is a POST of n bytes.
func upload(n int) []byte {
	head := fmt.Appendf(nil, "POST /v1/files HTTP/1.1\r\nHost: %s\r\nContent-Type: application/octet-stream\r\n"+
		"X-Session-ID: session-0\r\nContent-Length: %d\r\n\r\n", hostname(0), n)
	return append(head, strings.Repeat("x", n)...)
}

const (
	handshakers   = 16
	http2Conns    = 4
	http2Streams  = 100
	requestsLimit = time.Minute // of one request
)

// clientTLS trusts anybody: what is measured is the other side.
func clientTLS(protocols ...string) *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, ServerName: serverName, NextProtos: protocols, MinVersion: tls.VersionTLS13} //nolint:gosec // see above
}

// handshakes makes a TLS 1.3 connection, sends one request on it and closes it,
// again and again; resumed: with a ticket of the connection before.
func handshakes(resumed bool) load {
	return func(ctx context.Context, address string, d time.Duration) (figures, error) {
		return clients(ctx, d, handshakers, func(ctx context.Context, i int, done func(time.Duration)) error {
			config := clientTLS("http/1.1")
			if resumed {
				config.ClientSessionCache = tls.NewLRUClientSessionCache(1)
			}
			request := get("/v1/models", i)
			buf := make([]byte, 4<<10)
			for n := 0; ctx.Err() == nil; n++ {
				began := time.Now()
				if err := handshake(ctx, address, config, request, buf, resumed && n > 0); err != nil {
					return err
				}
				done(time.Since(began))
			}
			return nil
		})
	}
}

func handshake(ctx context.Context, address string, config *tls.Config, request, buf []byte, resumed bool) error {
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	// A reset: otherwise the ports of closed connections run out.
	_ = raw.(*net.TCPConn).SetLinger(0)
	c := tls.Client(raw, config)
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(requestsLimit))
	if _, err := c.Write(request); err != nil {
		return err
	}
	if resumed && !c.ConnectionState().DidResume {
		return fmt.Errorf("%s did not resume the session", address)
	}
	// The ticket comes before the answer, which is short.
	n, err := c.Read(buf)
	if err == nil && !strings.HasPrefix(string(buf[:n]), "HTTP/1.1 200") {
		err = fmt.Errorf("answered %q", buf[:n])
	}
	return err
}

// http2Load sends chats on few connections with many streams each.
func http2Load(ctx context.Context, address string, d time.Duration) (figures, error) {
	body, err := chat(0)
	if err != nil {
		return figures{}, err
	}
	var transports [http2Conns]*http.Transport
	for i := range transports {
		transports[i] = &http.Transport{
			TLSClientConfig: clientTLS(), ForceAttemptHTTP2: true, MaxConnsPerHost: 1,
		}
		defer transports[i].CloseIdleConnections()
	}
	return clients(ctx, d, http2Conns*http2Streams, func(ctx context.Context, i int, done func(time.Duration)) error {
		for ctx.Err() == nil {
			began := time.Now()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+address+"/v1/chat/completions", strings.NewReader(string(body)))
			if err != nil {
				return err
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("X-Session-ID", fmt.Sprintf("session-%d", i%sessions))
			resp, err := transports[i%http2Conns].RoundTrip(req)
			if err != nil {
				return err
			}
			_, err = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if err == nil && (resp.StatusCode != http.StatusOK || resp.ProtoMajor != 2) {
				err = fmt.Errorf("answered %s %s", resp.Proto, resp.Status)
			}
			if err != nil {
				return err
			}
			done(time.Since(began))
		}
		return nil
	})
}

// clients runs n of a client for d and sums up what they report. A client that
// has to give up counts as an error.
func clients(ctx context.Context, d time.Duration, n int, client func(ctx context.Context, i int, done func(time.Duration)) error) (figures, error) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var mu sync.Mutex
	var f figures
	var all []time.Duration
	var failed error
	var running sync.WaitGroup
	began := time.Now()
	for i := range n {
		running.Go(func() {
			var own []time.Duration
			err := client(ctx, i, func(took time.Duration) { own = append(own, took) })
			mu.Lock()
			defer mu.Unlock()
			all = append(all, own...)
			if err != nil && ctx.Err() == nil {
				f.errors++
				failed = err
			}
		})
	}
	running.Wait()
	f.requests, f.seconds = len(all), time.Since(began).Seconds()
	if f.requests == 0 {
		return f, fmt.Errorf("nothing came of it: %w", failed)
	}
	if failed != nil {
		fmt.Fprintf(os.Stderr, " [%d of %d clients gave up; the last: %v]", f.errors, n, failed)
	}
	f.p50, f.p99 = percentiles(all)
	return f, nil
}
