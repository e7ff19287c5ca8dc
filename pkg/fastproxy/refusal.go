package fastproxy

// refusal is the answer to a message that the gate does not let through. It is
// sent as short plain text and the connection is closed after it.
type refusal struct {
	status int
	reason string // metric label; a constant
	text   string // what is wrong and what to send instead
}

// The refusals. RFC 9112 unless another source is named.
var (
	refuseRequestLine = refusal{400, "request_line", "malformed request line: send METHOD SP target SP HTTP/1.1"}
	refuseMethod      = refusal{400, "method", "the method is not a token"}
	refuseConnect     = refusal{405, "connect", "CONNECT is not supported: this is a gateway, not a forward proxy"}
	refuseVersion     = refusal{505, "version", "only HTTP/1.1 and HTTP/1.0 are spoken here"}
	refuseTarget      = refusal{400, "target", "malformed request target"}
	refuseTargetNUL   = refusal{400, "target", "the path holds an encoded NUL"}
	refuseURITooLong  = refusal{414, "target_size", "the request target is too long"}
	refuseHeadSize    = refusal{431, "header_size", "the header block is too large"}
	refuseFieldCount  = refusal{431, "header_count", "too many header fields"}
	refuseBareLF      = refusal{400, "line_end", "a line does not end in CRLF"}
	refuseFold        = refusal{400, "fold", "folded header lines are obsolete: send the field on one line"}
	refuseFieldName   = refusal{400, "field_name", "a header field's name is not a token"}
	refuseFieldValue  = refusal{400, "field_value", "a header field's value holds a control character"}
	refuseNoHost      = refusal{400, "host", "HTTP/1.1 needs exactly one Host header"}
	refuseHost        = refusal{400, "host", "the host is not a host name or address with an optional port"}
	refuseLength      = refusal{400, "content_length", "Content-Length must be one decimal number"}
	refuseTypes       = refusal{400, "content_type", "Content-Type must appear once"}
	refuseLengthTE    = refusal{400, "framing", "Content-Length and Transfer-Encoding exclude each other"}
	refuseTE          = refusal{400, "transfer_encoding", "Transfer-Encoding must appear once, not empty, in HTTP/1.1 only"}
	refuseCoding      = refusal{501, "transfer_encoding", "the only transfer coding is chunked"}
	refuseExpect      = refusal{417, "expect", "the only expectation is 100-continue"}
	refuseUpgrade     = refusal{400, "upgrade", "Connection: upgrade and close exclude each other"}
	refuseSlowHead    = refusal{408, "header_timeout", "the header block took too long"}
	refusePanic       = refusal{500, "panic", "internal error"}
	refuseFull        = refusal{503, "connections", "too many connections"}
)
