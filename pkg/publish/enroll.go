package publish

import (
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"errors"
	"net"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// enroll makes a client certificate for the pod whose token is presented.
func (p *Publisher) enroll(ctx context.Context, request *enrollRequest) (*enrollResponse, error) {
	who, err := p.authenticate(ctx)
	if err != nil {
		p.metrics.enrolled("refused")
		return nil, err
	}
	csr, err := parseRequest(request.CSR)
	if err != nil {
		p.metrics.enrolled("refused")
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	authority := p.serving.current()
	if authority == nil {
		return nil, status.Error(codes.Unavailable, errNoAuthority.Error())
	}
	chain, err := authority.signClient(csr, who)
	if err != nil {
		p.metrics.enrolled("failed")
		return nil, status.Error(codes.Internal, "the certificate cannot be signed: "+err.Error())
	}
	p.metrics.enrolled("enrolled")
	p.o.Logger.Debug("gateway pod enrolled", "gateway", who.Gateway, "pod", who.Pod)
	return &enrollResponse{Chain: chain}, nil
}

func (p *Publisher) authenticate(ctx context.Context) (Identity, error) {
	var token, address string
	if md, ok := metadata.FromIncomingContext(ctx); ok {
		if values := md.Get("authorization"); len(values) == 1 {
			token, _ = strings.CutPrefix(values[0], "Bearer ")
		}
	}
	if pr, ok := peer.FromContext(ctx); ok {
		if host, _, err := net.SplitHostPort(pr.Addr.String()); err == nil {
			address = host
		}
	}
	who, err := p.o.Authenticate(ctx, token, address)
	switch {
	case errors.Is(err, ErrUnauthenticated):
		return Identity{}, status.Error(codes.Unauthenticated, err.Error())
	case err != nil:
		return Identity{}, status.Error(codes.Unavailable, err.Error())
	}
	return who, nil
}

// parseRequest reads a certificate request whose sender has shown to hold the
// key.
func parseRequest(der []byte) (*x509.CertificateRequest, error) {
	csr, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return nil, errors.New("the certificate request cannot be read")
	}
	if err := csr.CheckSignature(); err != nil {
		return nil, errors.New("the certificate request is not signed by its own key")
	}
	if _, ok := csr.PublicKey.(*ecdsa.PublicKey); !ok {
		return nil, errors.New("the key is not an elliptic curve's")
	}
	return csr, nil
}
