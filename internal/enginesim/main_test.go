package enginesim

import (
	"fmt"
	"net/http"
	"os"
	"runtime"
	"testing"
	"time"
)

// TestMain fails a run that leaves goroutines behind: engines are started by the
// dozen in other packages' tests and must go without a trace.
func TestMain(m *testing.M) {
	before := runtime.NumGoroutine()
	code := m.Run()
	http.DefaultClient.CloseIdleConnections()
	for deadline := time.Now().Add(patience); code == 0 && runtime.NumGoroutine() > before; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			fmt.Fprintf(os.Stderr, "%d goroutines before, %d after:\n%s\n", before, runtime.NumGoroutine(), stacks[:runtime.Stack(stacks, true)])
			code = 1
		}
	}
	os.Exit(code)
}
