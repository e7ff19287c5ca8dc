package publish

import (
	"context"
	"encoding/json"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
)

// The gRPC service. Unknown fields are ignored by both ends, so that either may
// be newer.
const (
	serviceName     = "flexinfer.publish.v1.Snapshots"
	enrollMethod    = "/" + serviceName + "/Enroll"
	subscribeMethod = "/" + serviceName + "/Subscribe"
)

// Sizes in bytes. A change is cut into messages of about chunkBytes; one
// resource is never cut.
const (
	chunkBytes      = 256 << 10
	maxUpdateBytes  = 64 << 20 // what a gateway takes from its controller
	maxRequestBytes = 2 << 20  // what a controller takes from anybody
)

// enrollRequest asks for a client certificate. The token is in the metadata, so
// that it is in no message that might be printed.
type enrollRequest struct {
	CSR []byte // DER; only its public key counts
}

type enrollResponse struct {
	Chain []byte // PEM, the client's certificate first
}

// upstream is a message of a gateway. Any of its parts may be absent.
type upstream struct {
	// Held are versions by resource that the gateway holds. They come before
	// Follow, in as many messages as it takes.
	Held map[resourceID]string `json:",omitzero"`
	// Follow asks for the Config from now on.
	Follow bool            `json:",omitzero"`
	Ack    *acknowledgment `json:",omitzero"`
	Demand *demand         `json:",omitzero"`
}

// acknowledgment is what the gateway serves.
type acknowledgment struct {
	Generation uint64
	Version    string
	Refused    []Refusal `json:",omitzero"`
	Error      string    `json:",omitzero"`
}

type demand struct {
	Models []modelDemand
}

// modelDemand is a ModelDemand with an age, in ms, in place of a time; -1: never.
type modelDemand struct {
	Model            string
	Waiting, Running int   `json:",omitzero"`
	Idle             int64 `json:",omitzero"`
}

// downstream is a message of a controller.
type downstream struct {
	// Instance names the replica, Peers are the addresses of the others by
	// instance. Both come with the first message, and when they change.
	Instance string            `json:",omitzero"`
	Peers    map[string]string `json:",omitzero"`
	// Stale comes with Instance: the replica does not see what changes. Another
	// one is to be followed, if there is one that does.
	Stale  bool    `json:",omitzero"`
	Update *update `json:",omitzero"`
}

// update is a change of the Config, or a part of one.
type update struct {
	Set     []resource   `json:",omitzero"`
	Removed []resourceID `json:",omitzero"`
	// Whole ends the change.
	Whole *whole `json:",omitzero"`
}

// whole names a Config.
type whole struct {
	Generation uint64
	Version    string
}

// codec writes messages as JSON.
type codec struct{}

func (codec) Name() string { return "flexinfer-json" }

func (codec) Marshal(v any) (mem.BufferSlice, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return mem.BufferSlice{mem.SliceBuffer(b)}, nil
}

func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	return json.Unmarshal(data.Materialize(), v)
}

// service is the server's side of the gRPC service.
type service interface {
	enroll(ctx context.Context, request *enrollRequest) (*enrollResponse, error)
	subscribe(stream grpc.ServerStream) error
}

var serviceDesc = grpc.ServiceDesc{
	ServiceName: serviceName,
	HandlerType: (*service)(nil),
	Methods: []grpc.MethodDesc{{
		MethodName: "Enroll",
		Handler: func(srv any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			var request enrollRequest
			if err := decode(&request); err != nil {
				return nil, err
			}
			return srv.(service).enroll(ctx, &request)
		},
	}},
	Streams: []grpc.StreamDesc{{
		StreamName:    "Subscribe",
		Handler:       func(srv any, stream grpc.ServerStream) error { return srv.(service).subscribe(stream) },
		ServerStreams: true,
		ClientStreams: true,
	}},
}
