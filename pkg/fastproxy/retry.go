package fastproxy

import (
	"sync"
	"sync/atomic"
	"time"
)

// retryReason is why an exchange is tried again; its String is a metric label.
type retryReason uint8

const (
	retryNone retryReason = iota
	// retryConnect: another endpoint after one that could not be connected to.
	retryConnect
	// retryStale: a new connection after a stale kept one.
	retryStale
	// The rule's retry asked for the rest.
	retryAskedConnect
	retryNoResponse
	retryTimeout
	retryStatus

	numRetryReasons = iota
)

var retryReasonNames = [numRetryReasons]string{
	retryNone: "none", retryConnect: "connect", retryStale: "stale_connection",
	retryAskedConnect: "retry_connect", retryNoResponse: "retry_no_response",
	retryTimeout: "retry_timeout", retryStatus: "retry_status",
}

func (r retryReason) String() string { return retryReasonNames[r] }

// retryBudget bounds the retries that rules ask for to a fifth of the requests
// of the last ten to twenty seconds, so that retries never make an overload
// worse. A few are always allowed. Safe for concurrent use.
type retryBudget struct {
	requests *atomic.Int64 // all requests ever, counted elsewhere

	mu         sync.Mutex
	since      int64 // Unix nanoseconds at which this window began
	sinceCount int64 // requests at that time
	before     int64 // requests in the window before
	used       int64
}

const (
	retryWindow    = 10 * time.Second
	retriesAlways  = 20
	requestsPerTry = 5
)

// allow takes one retry out of the budget at the time now, in Unix nanoseconds.
func (b *retryBudget) allow(now int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	total := b.requests.Load()
	if now-b.since > int64(retryWindow) {
		b.before = total - b.sinceCount
		b.since, b.sinceCount, b.used = now, total, 0
	}
	if b.used >= retriesAlways+(total-b.sinceCount+b.before)/requestsPerTry {
		return false
	}
	b.used++
	return true
}

// maxBackoff bounds the wait that is doubled.
const maxBackoff = time.Hour

// backoff is the wait before the try that follows asked earlier ones.
func backoff(first time.Duration, asked int) time.Duration {
	return min(first, maxBackoff) << min(asked, 6)
}
