package fastproxy

import (
	"strconv"
	"strings"
)

// strictMessage is a request as an independent and strict reader of RFC 9112
// sees it, with what has to become of it.
type strictMessage struct {
	method, target, authority, version string
	fields                             []strictField // all of the head, in order
	body                               string
	upgrade                            string // the protocol that may be switched to
	close                              bool   // the connection ends with it
}

type strictField struct{ name, value string } // the name in lower case

func (m *strictMessage) values(name string) (values []string) {
	for _, f := range m.fields {
		if f.name == name {
			values = append(values, f.value)
		}
	}
	return values
}

// options are the elements of the Connection fields, in lower case.
func (m *strictMessage) options() map[string]bool {
	options := map[string]bool{}
	for _, v := range m.values("connection") {
		for _, o := range strings.Split(v, ",") {
			options[strings.ToLower(strings.Trim(o, " \t"))] = true
		}
	}
	return options
}

// strictReading is what a strict reader makes of the bytes of one connection.
type strictReading struct {
	messages []strictMessage
	// refused: what follows the messages must not be forwarded.
	refused bool
	// begun is the head of the message whose body is not complete or is broken.
	begun *strictMessage
	// over: a limit on sizes may have the gateway refuse what is well-formed.
	over bool
	// missing is how many bytes of content are still to come; between messages
	// and within heads and chunk framing it is 0.
	missing int
}

// ends says whether nothing behind the bytes read can be another message.
func (r *strictReading) ends() bool {
	return r.refused || len(r.messages) > 0 && r.messages[len(r.messages)-1].close
}

// readStrict reads raw as a strict server does that keeps to the letter of RFC
// 9110 and 9112, and of what the gateway's gate promises beyond them. It is
// written for being read, apart from the product's own code.
func readStrict(raw string) (r strictReading) {
	for !r.ends() {
		for strings.HasPrefix(raw, "\r\n") {
			raw = raw[2:]
		}
		head, rest, state := cutHead(raw)
		if state != readWhole {
			r.refused = state == readBroken
			return r
		}
		m, length, ok := parseStrict(head)
		r.over = r.over || strings.Count(head, "\r\n") > 200
		if !ok {
			r.refused = true
			return r
		}
		if length < 0 {
			m.body, rest, state = cutChunks(rest, &r)
		} else if state = readWhole; len(rest) < length {
			r.missing, state = length-len(rest), readUnfinished
		} else {
			m.body, rest = rest[:length], rest[length:]
		}
		if state != readWhole {
			r.begun, r.refused = &m, state == readBroken
			return r
		}
		r.messages = append(r.messages, m)
		raw = rest
	}
	return r
}

// readState is how far reading has come.
type readState int

const (
	readWhole readState = iota
	readUnfinished
	readBroken
)

// cutStrictLine cuts a line that ends in CRLF off raw.
func cutStrictLine(raw string) (line, rest string, state readState) {
	line, rest, ended := strings.Cut(raw, "\n")
	switch {
	case !ended:
		return "", raw, readUnfinished
	case !strings.HasSuffix(line, "\r"):
		return "", raw, readBroken
	}
	return line[:len(line)-1], rest, readWhole
}

// cutHead cuts a head with its empty line off raw.
func cutHead(raw string) (head, rest string, state readState) {
	rest = raw
	for {
		var line string
		if line, rest, state = cutStrictLine(rest); state != readWhole {
			return "", "", state
		}
		if line == "" {
			return raw[:len(raw)-len(rest)], rest, readWhole
		}
	}
}

// cutChunks cuts a chunked body with its trailer section off raw.
func cutChunks(raw string, r *strictReading) (body, rest string, state readState) {
	var content strings.Builder
	for {
		line, rest, state := cutStrictLine(raw)
		if state != readWhole {
			return "", "", state
		}
		digits, extension, extended := strings.Cut(line, ";")
		size, err := strconv.ParseUint(digits, 16, 63)
		if err != nil || len(digits) > 15 || strings.Trim(digits, "0123456789abcdefABCDEF") != "" || !strictText(extension) {
			return "", "", readBroken
		}
		r.over = r.over || extended && len(extension) > 100 || len(raw) > 2<<10
		if raw = rest; size == 0 {
			break
		}
		if uint64(len(raw)) < size {
			r.missing = int(min(size-uint64(len(raw)), 1<<30))
			return "", "", readUnfinished
		}
		content.WriteString(raw[:size])
		switch raw = raw[size:]; {
		case strings.HasPrefix(raw, "\r\n"):
			raw = raw[2:]
		case raw == "" || raw == "\r":
			return "", "", readUnfinished
		default:
			return "", "", readBroken
		}
	}
	for {
		line, rest, state := cutStrictLine(raw)
		if state != readWhole {
			return "", "", state
		}
		if raw = rest; line == "" {
			return content.String(), raw, readWhole
		}
		if _, ok := parseStrictField(line); !ok {
			return "", "", readBroken
		}
	}
}

func strictToken(s string) bool {
	const others = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	return s != "" && strings.Trim(s, others) == "" && !strings.ContainsFunc(s, func(c rune) bool { return !strings.ContainsRune(others, c) })
}

// strictText says whether s holds no control byte but tab.
func strictText(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 && s[i] != '\t' || s[i] == 0x7f {
			return false
		}
	}
	return true
}

func parseStrictField(line string) (strictField, bool) {
	name, value, ok := strings.Cut(line, ":")
	return strictField{strings.ToLower(name), strings.Trim(value, " \t")}, ok && strictToken(name) && strictText(value)
}

// parseStrict reads a head; length is that of the body, -1 for chunks.
func parseStrict(head string) (m strictMessage, length int, ok bool) {
	lines := strings.Split(strings.TrimSuffix(head, "\r\n\r\n"), "\r\n")
	parts := strings.Split(lines[0], " ")
	if len(parts) != 3 {
		return m, 0, false
	}
	m.method, m.target, m.version = parts[0], parts[1], parts[2]
	if !strictToken(m.method) || m.method == "CONNECT" || m.version != "HTTP/1.1" && m.version != "HTTP/1.0" {
		return m, 0, false
	}
	for _, line := range lines[1:] {
		f, ok := parseStrictField(line)
		if !ok {
			return m, 0, false
		}
		m.fields = append(m.fields, f)
	}
	if !m.readAuthority() || !m.readTarget() || len(m.values("content-type")) > 1 {
		return m, 0, false
	}
	if length, ok = m.framing(); !ok {
		return m, 0, false
	}
	options := m.options()
	if options["close"] && options["upgrade"] {
		return m, 0, false
	}
	m.close = options["close"] || m.version == "HTTP/1.0" && !options["keep-alive"]
	protocols := m.values("upgrade")
	if options["upgrade"] && m.version == "HTTP/1.1" && length == 0 && len(protocols) == 1 && strictProtocol(protocols[0]) {
		m.upgrade = protocols[0]
	}
	return m, length, true
}

func strictProtocol(s string) bool {
	name, version, versioned := strings.Cut(s, "/")
	return strictToken(name) && (!versioned || strictToken(version)) && !strings.EqualFold(s, "h2c")
}

// readAuthority takes the Host field.
func (m *strictMessage) readAuthority() bool {
	hosts := m.values("host")
	if len(hosts) > 1 || m.version == "HTTP/1.1" && (len(hosts) == 0 || hosts[0] == "") {
		return false
	}
	if len(hosts) == 1 {
		m.authority = hosts[0]
	}
	return m.authority == "" || strictAuthority(m.authority)
}

// strictAuthority says whether s is a DNS name or an IP literal with an optional
// port, and no more: no user, no percent sign.
func strictAuthority(s string) bool {
	const digits, letters = "0123456789", "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	var host, port string
	if strings.HasPrefix(s, "[") {
		literal, rest, closed := strings.Cut(s[1:], "]")
		if !closed || strings.Count(literal, ":") < 2 || len(literal) > 45 || strings.ContainsFunc(literal, func(c rune) bool {
			return !strings.ContainsRune(digits+"abcdefABCDEF:.", c)
		}) {
			return false
		}
		if rest == "" {
			return true
		}
		if rest[0] != ':' {
			return false
		}
		port = rest[1:]
	} else {
		host, port, _ = strings.Cut(s, ":")
		if trimmed := strings.TrimSuffix(host, "."); trimmed != "" {
			host = trimmed
		}
		if host == "" || len(host) > 255 || strings.ContainsFunc(host, func(c rune) bool {
			return !strings.ContainsRune(digits+letters+"-._~", c)
		}) {
			return false
		}
	}
	n, err := strconv.Atoi("0" + port)
	return err == nil && len(port) <= 5 && n <= 65535 && !strings.ContainsAny(port, "+-_")
}

// readTarget brings the target to its origin form and takes an absolute form's
// authority.
func (m *strictMessage) readTarget() bool {
	t := m.target
	for i := range len(t) {
		if t[i] <= ' ' || t[i] == 0x7f || t[i] == '#' {
			return false
		}
	}
	if t == "*" {
		return m.method == "OPTIONS"
	}
	if !strings.HasPrefix(t, "/") {
		scheme, rest, found := strings.Cut(t, "://")
		if !found || !strings.EqualFold(scheme, "http") && !strings.EqualFold(scheme, "https") {
			return false
		}
		end := strings.IndexAny(rest, "/?")
		if end < 0 {
			end = len(rest)
		}
		m.authority, t = rest[:end], rest[end:]
		if !strictAuthority(m.authority) {
			return false
		}
		switch {
		case t == "" && m.method == "OPTIONS":
			m.target = "*"
			return true
		case t == "" || t[0] == '?':
			t = "/" + t
		}
	}
	m.target = t
	path, _, _ := strings.Cut(t, "?")
	for _, encoded := range strings.Split(path, "%")[1:] {
		if len(encoded) < 2 {
			return false
		}
		if n, err := strconv.ParseUint(encoded[:2], 16, 8); err != nil || n == 0 || strings.ContainsAny(encoded[:2], "+-_") {
			return false
		}
	}
	return true
}

// framing is the length of the body by the fields, -1 for chunks.
func (m *strictMessage) framing() (length int, ok bool) {
	lengths, codings, expects := m.values("content-length"), m.values("transfer-encoding"), m.values("expect")
	if m.version == "HTTP/1.1" && (len(expects) > 1 || len(expects) == 1 && !strings.EqualFold(expects[0], "100-continue")) {
		return 0, false
	}
	switch {
	case len(lengths)+len(codings) > 1:
		return 0, false
	case len(codings) == 1:
		return -1, m.version == "HTTP/1.1" && strings.EqualFold(codings[0], "chunked")
	case len(lengths) == 1:
		n, err := strconv.ParseUint(lengths[0], 10, 60)
		return int(n), err == nil && len(lengths[0]) <= 18 && strings.Trim(lengths[0], "0123456789") == ""
	}
	return 0, true
}
