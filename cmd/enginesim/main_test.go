package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"flexinfer.ai/gateway/internal/testrig"
)

func TestBadCommandLines(t *testing.T) {
	f := func(want string, code int, args ...string) {
		t.Helper()
		var log bytes.Buffer
		if got := run(context.Background(), args, &log); got != code || !strings.Contains(log.String(), want) {
			t.Errorf("%q: exit %d, %q; want %d with %q", args, got, log.String(), code, want)
		}
	}
	f("flag provided but not defined: -prefil-speed", 2, "--prefil-speed=3")
	f(`unexpected argument "serve"`, 2, "serve")
	f("decode speed is -1", 2, "--decode-speed", "-1")
	f("needs one from 400 to 599", 2, "--fault", `{"kind":"status","status":1}`)
	f("empty name", 2, "--served-model-name", "a,")
	f("shutdown timeout is -1s", 2, "--shutdown-timeout", "-1s")
	f("cannot start engine", 1, "--listen", "256.0.0.1:0")
	f("-prefill-speed", 0, "--help")
}

func TestServesUntilTheSignal(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var log testrig.Log
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"--listen", "127.0.0.1:0", "--name", "sim-1", "--served-model-name", "a,b", "--decode-speed", "0"}, &log)
	}()
	address := regexp.MustCompile(`serves (http://\S+)`)
	var url string
	for deadline := time.Now().Add(20 * time.Second); url == ""; time.Sleep(time.Millisecond) {
		if match := address.FindStringSubmatch(log.String()); match != nil {
			url = match[1]
		} else if time.Now().After(deadline) {
			t.Fatalf("does not say where it serves: %q", log.String())
		}
	}
	response, err := http.Get(url + "/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	if response.Header.Get("X-Engine") != "sim-1" || !strings.Contains(string(text), `"id":"b"`) {
		t.Errorf("engine %q lists %s", response.Header.Get("X-Engine"), text)
	}
	http.DefaultClient.CloseIdleConnections()
	stop()
	select {
	case got := <-code:
		if got != 0 {
			t.Errorf("exit %d: %s", got, log.String())
		}
	case <-time.After(20 * time.Second):
		t.Fatal("does not stop")
	}
}
