package enginesim

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// upgrade opens a WebSocket; the key and its answer are RFC 6455's example.
func upgrade(t *testing.T, e *Engine) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, r := dial(t, e)
	_, err := io.WriteString(conn, "GET /ws?x=1 HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: realtime, other\r\n\r\n")
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != 101 || response.Header.Get("Sec-Websocket-Accept") != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" ||
		response.Header.Get("Sec-Websocket-Protocol") != "realtime" || response.Header.Get("X-Engine") == "" {
		t.Fatalf("%s with %v", response.Status, response.Header)
	}
	return conn, r
}

func writeMasked(t *testing.T, w io.Writer, first byte, payload []byte) {
	t.Helper()
	out := []byte{first}
	switch n := len(payload); {
	case n <= 125:
		out = append(out, 0x80|byte(n))
	case n <= 0xffff:
		out = binary.BigEndian.AppendUint16(append(out, 0x80|126), uint16(n))
	default:
		out = binary.BigEndian.AppendUint64(append(out, 0x80|127), uint64(n))
	}
	mask := [4]byte{1, 2, 3, 4}
	out = append(out, mask[:]...)
	for i, b := range payload {
		out = append(out, b^mask[i%4])
	}
	if _, err := w.Write(out); err != nil {
		t.Fatal(err)
	}
}

func readUnmasked(t *testing.T, r io.Reader) (first byte, payload []byte) {
	t.Helper()
	head := make([]byte, 2)
	if _, err := io.ReadFull(r, head); err != nil {
		t.Fatal(err)
	}
	size := int(head[1])
	extended := make([]byte, map[int]int{126: 2, 127: 8}[size])
	if _, err := io.ReadFull(r, extended); err != nil {
		t.Fatal(err)
	}
	if len(extended) > 0 {
		size = int(binary.BigEndian.Uint64(append(make([]byte, 8-len(extended)), extended...)))
	}
	payload = make([]byte, size)
	if _, err := io.ReadFull(r, payload); err != nil {
		t.Fatal(err)
	}
	return head[0], payload
}

func TestWebSocketEcho(t *testing.T) {
	e := start(t, Options{})
	conn, r := upgrade(t, e)
	expect := func(first byte, payload []byte) {
		t.Helper()
		if gotFirst, got := readUnmasked(t, r); gotFirst != first || !bytes.Equal(got, payload) {
			t.Fatalf("frame %#x with %d bytes, want %#x with %d", gotFirst, len(got), first, len(payload))
		}
	}
	for _, size := range []int{0, 1, 125, 126, 65535, 65536, 1 << 20} {
		payload := bytes.Repeat([]byte{'a'}, size)
		writeMasked(t, conn, 0x80|opText, payload)
		expect(0x80|opText, payload)
	}
	writeMasked(t, conn, opBinary, []byte{0xff, 1})
	writeMasked(t, conn, 0x80|opPing, []byte("between"))
	expect(0x80|opPong, []byte("between"))
	writeMasked(t, conn, 0x80|opContinuation, []byte{2})
	expect(0x80|opBinary, []byte{0xff, 1, 2})
	writeMasked(t, conn, 0x80|opClose, []byte{0x03, 0xe8})
	expect(0x80|opClose, []byte{0x03, 0xe8})
	if _, err := r.ReadByte(); err != io.EOF {
		t.Errorf("after close: %v", err)
	}
	eventually(t, "finished", func() bool { return e.Counters().Finished == 1 })
}

func TestWebSocketViolations(t *testing.T) {
	e := start(t, Options{})
	f := func(raw []byte, code uint16) {
		t.Helper()
		conn, r := upgrade(t, e)
		if _, err := conn.Write(raw); err != nil {
			t.Fatal(err)
		}
		first, payload := readUnmasked(t, r)
		if first != 0x80|opClose || binary.BigEndian.Uint16(payload) != code {
			t.Errorf("% x: frame %#x % x, want close %d", raw, first, payload, code)
		}
	}
	f([]byte{0x81, 0x01, 'a'}, closeProtocolError)                                // not masked
	f([]byte{0xc1, 0x80, 0, 0, 0, 0}, closeProtocolError)                         // reserved bit
	f([]byte{0x83, 0x80, 0, 0, 0, 0}, closeProtocolError)                         // unknown opcode
	f([]byte{0x80, 0x80, 0, 0, 0, 0}, closeProtocolError)                         // nothing to continue
	f([]byte{0x09, 0x80, 0, 0, 0, 0}, closeProtocolError)                         // fragmented ping
	f([]byte{0x01, 0x80, 0, 0, 0, 0, 0x81, 0x80, 0, 0, 0, 0}, closeProtocolError) // message inside a message
	f([]byte{0x81, 0x81, 0, 0, 0, 0, 0xff}, closeInvalidText)                     // not UTF-8
	f([]byte{0x82, 0xff, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0}, closeTooBig)        // 4 GiB announced
}

func TestWebSocketCutAndClose(t *testing.T) {
	e := start(t, Options{})
	conn, _ := upgrade(t, e)
	_ = conn.Close()
	eventually(t, "cancelled", func() bool { return e.Counters().Cancelled == 1 })
	if c := e.Counters().Cancellations[0]; c.Phase != phaseTunnel || c.Path != "/ws" || time.Since(c.Seen) > patience {
		t.Errorf("cancellation %+v", c)
	}
	_, r := upgrade(t, e)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.ReadByte(); err == nil {
		t.Error("the tunnel outlived the engine")
	}
}

func TestWebSocketHandshakeRefused(t *testing.T) {
	e := start(t, Options{})
	r, _ := send(t, http.MethodGet, e.URL()+"/ws", "")
	if r.StatusCode != http.StatusUpgradeRequired || r.Header.Get("Upgrade") != "websocket" {
		t.Errorf("%s with %v", r.Status, r.Header)
	}
}
