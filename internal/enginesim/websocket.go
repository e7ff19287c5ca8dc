package enginesim

import (
	"bufio"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"
)

// The WebSocket echo: RFC 6455 without extensions. Each message comes back as one
// frame of its kind, pings are answered, a close is answered and ends it.

const (
	webSocketGUID      = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
	maxWebSocketBytes  = 16 << 20 // of one message
	maxControlBytes    = 125
	opContinuation     = 0x0
	opText             = 0x1
	opBinary           = 0x2
	opClose            = 0x8
	opPing             = 0x9
	opPong             = 0xA
	closeProtocolError = 1002
	closeInvalidText   = 1007
	closeTooBig        = 1009
)

// webSocketError ends a connection with a close code.
type webSocketError uint16

func (webSocketError) Error() string { return "enginesim: WebSocket protocol violated" }

type frame struct {
	final   bool
	opcode  byte
	payload []byte
}

// serveWebSocket upgrades and echoes until either side closes.
func (e *Engine) serveWebSocket(w http.ResponseWriter, r *http.Request, x *exchange) {
	key, problem := webSocketKey(r)
	if problem != "" {
		w.Header().Set("Upgrade", "websocket")
		w.Header().Set("Sec-WebSocket-Version", "13")
		x.finish()
		writeError(w, r, apiError{status: http.StatusUpgradeRequired, message: problem})
		return
	}
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		x.finish()
		writeError(w, r, apiError{status: http.StatusNotImplemented, message: "WebSocket needs HTTP/1.1 on this engine"})
		return
	}
	defer conn.Close()
	e.conns.addTunnel(conn)
	defer e.conns.removeTunnel(conn)
	x.setPhase(phaseTunnel)
	sum := sha1.Sum([]byte(key + webSocketGUID))
	head := "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		engineHeader + ": " + e.Name() + "\r\n" +
		"Sec-WebSocket-Accept: " + base64.StdEncoding.EncodeToString(sum[:]) + "\r\n"
	if protocol, _, _ := strings.Cut(r.Header.Get("Sec-WebSocket-Protocol"), ","); protocol != "" {
		head += "Sec-WebSocket-Protocol: " + strings.TrimSpace(protocol) + "\r\n"
	}
	_, _ = rw.WriteString(head + "\r\n")
	if rw.Flush() != nil {
		x.cancel()
		return
	}
	echoMessages(rw, x)
}

// webSocketKey returns the handshake's key, or what is wrong with the handshake.
func webSocketKey(r *http.Request) (key, problem string) {
	switch key = r.Header.Get("Sec-WebSocket-Key"); {
	case r.Method != http.MethodGet || !hasToken(r.Header, "Upgrade", "websocket") || !hasToken(r.Header, "Connection", "upgrade"):
		return "", "this path speaks WebSocket; send GET with Connection: Upgrade and Upgrade: websocket"
	case r.Header.Get("Sec-WebSocket-Version") != "13":
		return "", "this engine speaks WebSocket version 13 only"
	case key == "":
		return "", "the handshake has no Sec-WebSocket-Key"
	}
	return key, ""
}

func hasToken(header http.Header, name, token string) bool {
	for _, value := range header.Values(name) {
		for item := range strings.SplitSeq(value, ",") {
			if strings.EqualFold(strings.TrimSpace(item), token) {
				return true
			}
		}
	}
	return false
}

// echoMessages runs the conversation. A connection that ends without a close
// frame counts as cancelled.
func echoMessages(rw *bufio.ReadWriter, x *exchange) {
	var opcode byte
	var message []byte
	for {
		f, err := readFrame(rw.Reader)
		if err == nil {
			err = echoFrame(rw, f, &opcode, &message)
		}
		var violation webSocketError
		switch {
		case err == nil:
			continue
		case errors.Is(err, io.EOF) && f.opcode == opClose:
			x.finish()
		case errors.As(err, &violation):
			x.finish()
			_ = writeFrame(rw.Writer, opClose, binary.BigEndian.AppendUint16(nil, uint16(violation)))
		default:
			x.cancel()
		}
		return
	}
}

// echoFrame handles one frame. message collects the fragments of a message of
// kind opcode. io.EOF with a close frame is the orderly end.
func echoFrame(rw *bufio.ReadWriter, f frame, opcode *byte, message *[]byte) error {
	switch f.opcode {
	case opClose:
		if err := writeFrame(rw.Writer, opClose, f.payload); err != nil {
			return err
		}
		return io.EOF
	case opPing:
		return writeFrame(rw.Writer, opPong, f.payload)
	case opPong:
		return nil
	case opContinuation:
		if *opcode == 0 {
			return webSocketError(closeProtocolError)
		}
	default:
		if *opcode != 0 {
			return webSocketError(closeProtocolError)
		}
		*opcode = f.opcode
	}
	if len(*message)+len(f.payload) > maxWebSocketBytes {
		return webSocketError(closeTooBig)
	}
	*message = append(*message, f.payload...)
	if !f.final {
		return nil
	}
	if *opcode == opText && !utf8.Valid(*message) {
		return webSocketError(closeInvalidText)
	}
	err := writeFrame(rw.Writer, *opcode, *message)
	*opcode, *message = 0, (*message)[:0]
	return err
}

func readFrame(r *bufio.Reader) (frame, error) {
	var head [2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return frame{}, err
	}
	f := frame{final: head[0]&0x80 != 0, opcode: head[0] & 0x0f}
	control := f.opcode >= opClose
	known := f.opcode <= opBinary || f.opcode >= opClose && f.opcode <= opPong
	masked := head[1]&0x80 != 0
	size := uint64(head[1] & 0x7f)
	if head[0]&0x70 != 0 || !known || !masked || control && (!f.final || size > maxControlBytes) {
		return frame{}, webSocketError(closeProtocolError)
	}
	var extended [8]byte
	switch size {
	case 126:
		if _, err := io.ReadFull(r, extended[:2]); err != nil {
			return frame{}, err
		}
		size = uint64(binary.BigEndian.Uint16(extended[:]))
	case 127:
		if _, err := io.ReadFull(r, extended[:]); err != nil {
			return frame{}, err
		}
		size = binary.BigEndian.Uint64(extended[:])
	}
	if size > maxWebSocketBytes {
		return frame{}, webSocketError(closeTooBig)
	}
	var mask [4]byte
	if _, err := io.ReadFull(r, mask[:]); err != nil {
		return frame{}, err
	}
	f.payload = make([]byte, size)
	if _, err := io.ReadFull(r, f.payload); err != nil {
		return frame{}, err
	}
	for i := range f.payload {
		f.payload[i] ^= mask[i%4]
	}
	return f, nil
}

func writeFrame(w *bufio.Writer, opcode byte, payload []byte) error {
	head := []byte{0x80 | opcode}
	switch n := len(payload); {
	case n <= maxControlBytes:
		head = append(head, byte(n))
	case n <= 0xffff:
		head = binary.BigEndian.AppendUint16(append(head, 126), uint16(n))
	default:
		head = binary.BigEndian.AppendUint64(append(head, 127), uint64(n))
	}
	// bufio.Writer keeps the first error and Flush returns it.
	_, _ = w.Write(head)
	_, _ = w.Write(payload)
	return w.Flush()
}
