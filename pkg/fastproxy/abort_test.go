package fastproxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"flexinfer.ai/gateway/internal/testrig"
	"flexinfer.ai/gateway/pkg/routing"
)

// waitingEngine sends a head (and one event where stream is set) only to wait
// for its client's leaving; it reports when the request was in its hands and
// when it saw the close.
type waitingEngine struct {
	stream bool
	begun  chan struct{}
	closed chan time.Time
}

func (e *waitingEngine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	if e.stream {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: one\n\n")
		w.(http.Flusher).Flush()
	}
	e.begun <- struct{}{}
	select {
	case <-r.Context().Done():
		e.closed <- time.Now()
	case <-time.After(10 * time.Second):
		e.closed <- time.Time{}
	}
}

const abortTries = 50

// TestClientLeaves measures, over 50 tries each, how long an engine goes on
// after its client has left: before the first byte and in mid-stream, over
// TCP, TLS and HTTP/2. The median must be within 100 ms.
func TestClientLeaves(t *testing.T) {
	for _, stream := range []bool{false, true} {
		for _, protocol := range []string{"tcp", "tls", "h2"} {
			name := protocol + "/before-first-byte"
			if stream {
				name = protocol + "/mid-stream"
			}
			t.Run(name, func(t *testing.T) { clientLeaves(t, protocol, stream) })
		}
	}
}

func clientLeaves(t *testing.T, protocol string, stream bool) {
	engine := &waitingEngine{stream: stream, begun: make(chan struct{}, 1), closed: make(chan time.Time, 1)}
	port := testrig.FreePort(t)
	cfg := oneModel(port, routing.StrategyLeastLoaded, startEngine(t, engine))
	if protocol != "tcp" {
		cert, key := testrig.SelfSigned(t, "localhost")
		cfg.Listeners[0].Protocol = routing.ProtocolHTTPS
		cfg.Listeners[0].Certificates = []string{"Secret/ns/c"}
		cfg.Certificates = []routing.Certificate{{Key: "Secret/ns/c", CertPEM: cert, KeyPEM: key}}
	}
	p := startProxy(t, cfg, port, nil)
	var took []time.Duration
	for range abortTries {
		leave := sendAndLeave(t, p, protocol, stream)
		select {
		case <-engine.begun:
		case <-time.After(10 * time.Second):
			t.Fatal("the engine never got the request")
		}
		left := leave()
		saw := <-engine.closed
		if saw.IsZero() {
			t.Fatal("the engine did not see its client leave within 10 s")
		}
		took = append(took, saw.Sub(left))
	}
	slices.Sort(took)
	median := took[len(took)/2]
	t.Logf("%d tries: the engine saw the close after %v (median), %v (worst)", len(took), median, took[len(took)-1])
	if median > 100*time.Millisecond {
		t.Errorf("median %v, want at most 100 ms", median)
	}
	eventually(t, "the ledger is back at zero", func() bool { return p.loads() == 0 })
}

// sendAndLeave sends one request (and reads the first event where stream is
// set); the function it returns closes the connection and says when.
func sendAndLeave(t *testing.T, p *proxy, protocol string, stream bool) func() time.Time {
	const body = `{"messages":[{"role":"user","content":"hi"}]}`
	if protocol == "h2" {
		tr := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, "POST", "https://"+p.address()+"/v1/chat/completions", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		first := make(chan struct{})
		go func() {
			resp, err := (&http.Client{Transport: tr}).Do(req)
			if err == nil {
				if resp.ProtoMajor != 2 {
					t.Errorf("protocol %s", resp.Proto)
				}
				bufio.NewReader(resp.Body).ReadString('\n')
				close(first)
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
			tr.CloseIdleConnections()
		}()
		return func() time.Time {
			if stream {
				<-first
			}
			defer cancel()
			return time.Now()
		}
	}
	conn, err := net.Dial("tcp", p.address())
	if err != nil {
		t.Fatal(err)
	}
	if protocol == "tls" {
		conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true, ServerName: "localhost"})
	}
	_, err = io.WriteString(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: "+strconv.Itoa(len(body))+"\r\n\r\n"+body)
	if err != nil {
		t.Fatal(err)
	}
	return func() time.Time {
		if stream {
			r := bufio.NewReader(conn)
			for line := ""; !strings.Contains(line, "one"); {
				if line, err = r.ReadString('\n'); err != nil {
					t.Fatal(err)
				}
			}
		}
		now := time.Now()
		if c, ok := conn.(*tls.Conn); ok {
			c.NetConn().Close()
		} else {
			conn.Close()
		}
		return now
	}
}
