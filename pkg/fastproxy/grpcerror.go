package fastproxy

import (
	"strconv"

	"github.com/valyala/fasthttp"
)

// grpcStatus is a gRPC status code.
// Source: https://grpc.github.io/grpc/core/md_doc_statuscodes.html
type grpcStatus uint8

const (
	grpcCancelled         grpcStatus = 1
	grpcInvalidArgument   grpcStatus = 3
	grpcDeadlineExceeded  grpcStatus = 4
	grpcNotFound          grpcStatus = 5
	grpcResourceExhausted grpcStatus = 8
	grpcUnimplemented     grpcStatus = 12
	grpcInternal          grpcStatus = 13
	grpcUnavailable       grpcStatus = 14
)

// setTrailersOnly makes h a trailers-only answer with f's status and message;
// its body is empty.
func setTrailersOnly(h *fasthttp.ResponseHeader, f *failure) {
	h.SetContentType("application/grpc")
	l := responseFields(h)
	line := l.add("Grpc-Status")
	line.value = strconv.AppendUint(line.value, uint64(f.grpc), 10)
	line = l.add("Grpc-Message")
	line.value = appendGRPCMessage(line.value, f.message)
}

// appendGRPCMessage percent-encodes what a Grpc-Message cannot hold.
func appendGRPCMessage(dst []byte, message string) []byte {
	for i := range len(message) {
		c := message[i]
		if c < ' ' || c > '~' || c == '%' {
			dst = append(dst, '%', upperHex[c>>4], upperHex[c&15])
		} else {
			dst = append(dst, c)
		}
	}
	return dst
}
