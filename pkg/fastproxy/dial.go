package fastproxy

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
	"time"
)

// dialer makes the connections to endpoints: Nagle's algorithm off (the
// default of net), keep-alive probes that find a dead peer within 45 s, and on
// Linux a bound for bytes that are never acknowledged.
var dialer = net.Dialer{
	KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 6,
	},
	Control: limitUnacknowledged,
}

// connect makes a connection for l, or waits for one where MaxOpen exist. On
// return l.conn is published to the client's slot; on error there is none.
func (l *leg) connect(timeout int64) error {
	p := l.pool
	bounded := earlier(l.deadline, after(monotonic(), timeout))
	ctx, cancel := context.WithDeadline(context.Background(), atMonotonic(bounded))
	defer cancel()
	u := &upstreamConn{pool: p, cancel: cancel, armed: never}
	if !l.slot.publish(u) {
		return errClientGone
	}
	if !p.reserve() {
		handed, err := p.wait(ctx)
		if err != nil {
			return l.connectError(u, errPoolFull, bounded)
		}
		if handed != nil {
			return l.exchangeConn(u, handed)
		}
	}
	p.dials.Add(1)
	c, err := dialer.DialContext(ctx, "tcp", p.address)
	if err != nil {
		p.release()
		if !u.aborted.Load() {
			p.failures.Add(1)
		}
		return l.connectError(u, connectClass(err), bounded)
	}
	if !u.setConn(c.(*net.TCPConn)) {
		p.release()
		return l.connectError(u, errConnectFailed, bounded)
	}
	u.expires = p.expiry(monotonic())
	l.conn = u
	return nil
}

// exchangeConn replaces u, with which l waited, by the connection it was handed.
func (l *leg) exchangeConn(u, handed *upstreamConn) error {
	if l.slot.retract() && l.slot.publish(handed) {
		l.conn = handed
		l.pool.reuses.Add(1)
		return nil
	}
	l.pool.put(handed, handed.idleSince)
	return errClientGone
}

// connectError takes u back from the slot and says what kept it from connecting.
func (l *leg) connectError(u *upstreamConn, class error, bounded int64) error {
	l.slot.retract()
	if u.aborted.Load() {
		return errClientGone
	}
	if l.deadline != 0 && bounded == l.deadline && monotonic() >= bounded {
		return errDeadline
	}
	return class
}

// connectClass tells the failures of connecting apart.
func connectClass(err error) error {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET):
		return errConnectRefused
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded),
		errors.Is(err, syscall.ETIMEDOUT):
		return errConnectTimeout
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.EADDRNOTAVAIL),
		errors.Is(err, syscall.ENOBUFS), errors.Is(err, syscall.ENOMEM):
		return errShortage
	}
	return errConnectFailed
}
