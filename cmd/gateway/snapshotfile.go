package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"flexinfer.ai/gateway/pkg/routing"
)

// readSnapshot reads a Config from a JSON file. Unknown fields are refused: a
// file from a newer controller may mean more than this process can serve.
func readSnapshot(path string) (*routing.Config, error) {
	file, err := os.Open(path) //nolint:gosec // the path is the operator's own
	if err != nil {
		return nil, fmt.Errorf("cannot read snapshot: %w", err)
	}
	defer file.Close()
	decoder := json.NewDecoder(file)
	decoder.DisallowUnknownFields()
	var cfg routing.Config
	if err := decoder.Decode(&cfg); err != nil {
		return nil, fmt.Errorf("cannot parse snapshot %s: %w; write it with controller snapshot of the same version", path, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("cannot parse snapshot %s: more than one JSON value in it", path)
	}
	return &cfg, nil
}
