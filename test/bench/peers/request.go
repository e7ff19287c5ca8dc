package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	sessions  = 256
	bodyBytes = 2048
	manyHosts = 2000
)

// hostname is the i-th of the routes' hostnames.
func hostname(i int) string { return fmt.Sprintf("host-%d.bench.example", i) }

// requests returns one request a session, whole as it is sent: a chat of about
// 2 KB with a system prompt of its own, to a host drawn from all routes.
func requests() ([][]byte, error) {
	all := make([][]byte, sessions)
	for i := range all {
		body, err := chat(i)
		if err != nil {
			return nil, err
		}
		all[i] = fmt.Appendf(nil, "POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench\r\nAccept: */*\r\n"+
			"Content-Type: application/json\r\nX-Session-ID: session-%d\r\nContent-Length: %d\r\n\r\n%s",
			hostname(i*7%manyHosts), i, len(body), body)
	}
	return all, nil
}

// chat is the JSON body of session i, of exactly bodyBytes bytes.
func chat(i int) ([]byte, error) {
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	body := struct {
		Model       string    `json:"model"`
		Temperature float64   `json:"temperature"`
		Messages    []message `json:"messages"`
	}{"bench", 0.7, []message{
		{"system", fmt.Sprintf("You are assistant %d. ", i) + strings.Repeat("Answer in short sentences.\n", 30)},
		{"user", "Tell me more. "},
	}}
	short, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	if len(short) > bodyBytes {
		return nil, fmt.Errorf("the body of session %d has %d bytes before it is filled up to %d", i, len(short), bodyBytes)
	}
	body.Messages[1].Content += strings.Repeat("x", bodyBytes-len(short))
	return json.Marshal(body)
}

// writeRequests writes them into dir as request-0 and on, for wrk.
func writeRequests(dir string, all [][]byte) error {
	for i, r := range all {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("request-%d", i)), r, 0o600); err != nil {
			return err
		}
	}
	return nil
}
