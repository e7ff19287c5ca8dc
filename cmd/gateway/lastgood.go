package main

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"flexinfer.ai/gateway/pkg/routing"
)

// writePause is the least time between two writes of the file.
const writePause = time.Second

// lastGood keeps the last good configuration in a file, for a start without a
// controller. Private keys are only written where the file is in memory: on any
// other volume the listeners that need them are left out, and come back with the
// controller.
type lastGood struct {
	path string // "": nothing is kept
	keys bool   // private keys are kept too
	log  *slog.Logger

	newest chan *routing.Config // capacity 1
	done   sync.WaitGroup
}

func newLastGood(path string, log *slog.Logger) *lastGood {
	l := &lastGood{path: path, log: log, newest: make(chan *routing.Config, 1)}
	if path == "" {
		return l
	}
	if l.keys = inMemory(filepath.Dir(path)); !l.keys {
		log.Info("the snapshot file is on no memory-backed volume: certificates are not kept in it", "file", path)
	}
	l.done.Go(l.run)
	return l
}

// read is the configuration that was kept; nil: none that can be used.
func (l *lastGood) read() *routing.Config {
	if l.path == "" {
		return nil
	}
	cfg, err := readSnapshot(l.path)
	if err != nil {
		if !notThere(err) {
			l.log.Warn("the last good configuration cannot be used; waiting for the controller", "reason", err.Error())
		}
		return nil
	}
	l.log.Info("starting with the last good configuration", "file", l.path, "generation", cfg.Generation)
	return cfg
}

// write keeps cfg, soon. Only one goroutine may call it.
func (l *lastGood) write(cfg *routing.Config) {
	if l.path == "" {
		return
	}
	select {
	case <-l.newest: // never written, and not needed any more
	default:
	}
	l.newest <- cfg
}

// close writes what is left to write. Nothing may be written after it.
func (l *lastGood) close() {
	close(l.newest)
	l.done.Wait()
}

func (l *lastGood) run() {
	var failure string
	for cfg := range l.newest {
		err := replaceFile(l.path, l.keeps(cfg))
		switch {
		case err == nil:
			failure = ""
		case err.Error() != failure:
			failure = err.Error()
			l.log.Error("the last good configuration cannot be kept: a restart without a controller would serve an older one", "reason", failure)
		}
		time.Sleep(writePause)
	}
}

// keeps is what of cfg may be written.
func (l *lastGood) keeps(cfg *routing.Config) *routing.Config {
	if l.keys {
		return cfg
	}
	for _, c := range cfg.Certificates {
		if rest, ok := cfg.Without(c.Key); ok {
			cfg = rest
		}
	}
	return cfg
}

// replaceFile writes v as JSON in the place of a file: whole or not at all. What a
// process that was killed meanwhile left is overwritten, lest such files fill the
// volume, whose memory is the pod's.
func replaceFile(path string, v any) (err error) {
	file, err := os.OpenFile(path+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file.Name())
		}
	}()
	if err := json.NewEncoder(file).Encode(v); err != nil {
		_ = file.Close()
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}
