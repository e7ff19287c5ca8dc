package enginesim

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// dial opens a raw connection that is closed with the test.
func dial(t *testing.T, e *Engine) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", e.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	return conn, bufio.NewReader(conn)
}

// exchangeRaw writes request bytes and reads one echo.
func exchangeRaw(t *testing.T, conn net.Conn, r *bufio.Reader, request string) Echo {
	t.Helper()
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != 200 {
		t.Fatalf("%s: %s", response.Status, text)
	}
	return decode[Echo](t, string(text))
}

func TestEchoShowsTheRequestAsItArrived(t *testing.T) {
	e := start(t, Options{Name: "mirror"})
	conn, r := dial(t, e)
	f := func(head, body string, want Echo) {
		t.Helper()
		got := exchangeRaw(t, conn, r, head+"\r\n\r\n"+body)
		sum := sha256.Sum256([]byte(body))
		want.Engine, want.Proto, want.Host, want.HeadersAsReceived = "mirror", "HTTP/1.1", "h", true
		if want.BodySHA256 == "" {
			want.BodyLength, want.BodySHA256 = int64(len(body)), hex.EncodeToString(sum[:])
		}
		if want.Trailers == nil {
			want.Trailers = []HeaderField{}
		}
		want.RemoteAddr = got.RemoteAddr
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", head, diff)
		}
	}
	// All on one connection, so each block must be told from what went before.
	f("GET /echo//a/../b%2Fc?x=1&&y=%zz HTTP/1.1\r\nhost: h\r\nx-B: 2\r\nX-a:  1 \r\nx-b: 3", "", Echo{
		Method: "GET", RequestURI: "/echo//a/../b%2Fc?x=1&&y=%zz",
		Headers: []HeaderField{{"host", "h"}, {"x-B", "2"}, {"X-a", "1"}, {"x-b", "3"}},
	})
	body := strings.Repeat("GET /echo HTTP/1.1\r\n\r\n", 20000)
	f(fmt.Sprintf("PATCH /echo HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\nX_under: 1", len(body)), body, Echo{
		Method: "PATCH", RequestURI: "/echo",
		Headers: []HeaderField{{"Host", "h"}, {"Content-Length", fmt.Sprint(len(body))}, {"X_under", "1"}},
	})
	abc := sha256.Sum256([]byte("abc"))
	f("POST /echo/t HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTrailer: X-T", "1\r\na\r\n2\r\nbc\r\n0\r\nX-T: v\r\n\r\n", Echo{
		Method: "POST", RequestURI: "/echo/t", BodyLength: 3, BodySHA256: hex.EncodeToString(abc[:]),
		Headers:  []HeaderField{{"Host", "h"}, {"Transfer-Encoding", "chunked"}, {"Trailer", "X-T"}},
		Trailers: []HeaderField{{"X-T", "v"}},
	})
	f("PROPFIND /echo HTTP/1.1\r\nHost: h", "", Echo{
		Method: "PROPFIND", RequestURI: "/echo", Headers: []HeaderField{{"Host", "h"}},
	})
}

// Pipelining defeats the recorder; the echo must say so instead of showing a
// header of another request.
func TestEchoOfPipelinedRequests(t *testing.T) {
	e := start(t, Options{})
	conn, r := dial(t, e)
	first := exchangeRaw(t, conn, r, "GET /echo/1 HTTP/1.1\r\nHost: h\r\nX: 1\r\n\r\nGET /echo/2 HTTP/1.1\r\nHost: h\r\nX: 2\r\n\r\n")
	second := exchangeRaw(t, conn, r, "")
	if first.RequestURI != "/echo/1" || second.RequestURI != "/echo/2" {
		t.Fatalf("echoes of %s and %s", first.RequestURI, second.RequestURI)
	}
	if second.HeadersAsReceived || cmp.Diff([]HeaderField{{"X", "2"}}, second.Headers) != "" {
		t.Errorf("second echo %+v", second)
	}
}

func TestEchoAnswersAsAsked(t *testing.T) {
	e := start(t, Options{Name: "mirror"})
	r, text := send(t, http.MethodPost, e.URL()+"/echo/x", "abc",
		"X-Echo-Status", "418", "X-Echo-Set-Header", "X-One: 1", "X-Echo-Set-Header", "X-One: 2", "X-Echo-Set-Trailer", "X-End: bye")
	if r.StatusCode != 418 || cmp.Diff([]string{"1", "2"}, r.Header.Values("X-One")) != "" || r.Header.Get("X-Engine") != "mirror" {
		t.Errorf("%s with %v", r.Status, r.Header)
	}
	if r.Trailer.Get("X-End") != "bye" || decode[Echo](t, string(text)).BodyLength != 3 {
		t.Errorf("trailer %v after %s", r.Trailer, text)
	}
	if r, _ := send(t, http.MethodGet, e.URL()+"/echo", "", "X-Echo-Status", "204"); r.StatusCode != 204 {
		t.Errorf("%s, want 204", r.Status)
	}
	if r, _ := send(t, http.MethodGet, e.URL()+"/echo", "", "X-Echo-Status", "99"); r.StatusCode != 400 {
		t.Errorf("%s, want 400 for a status that is none", r.Status)
	}
}

func TestBodySumOnAPICalls(t *testing.T) {
	e := start(t, Options{})
	for _, body := range []string{`{"prompt":"x" }`, `{"broken`} {
		r, _ := send(t, http.MethodPost, e.URL()+"/v1/completions", body)
		sum := sha256.Sum256([]byte(body))
		if got := r.Header.Get("X-Engine-Body-Sha256"); got != hex.EncodeToString(sum[:]) {
			t.Errorf("%s: sum %q", body, got)
		}
	}
}

func TestCutUploadCountsAsCancelled(t *testing.T) {
	e := start(t, Options{})
	for i, path := range []string{"/echo", "/v1/completions"} {
		conn, _ := dial(t, e)
		_, _ = io.WriteString(conn, "POST "+path+" HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nabc")
		eventually(t, "request seen", func() bool { return e.Counters().Started == uint64(i+1) })
		_ = conn.Close()
		eventually(t, "cancelled", func() bool { return e.Counters().Cancelled == uint64(i+1) })
		if c := e.Counters().Cancellations[i]; c.Phase != phaseBody || c.Path != path {
			t.Errorf("cancellation %+v", c)
		}
	}
}
