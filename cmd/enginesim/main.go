// Command enginesim runs one simulated inference engine: the OpenAI and Anthropic
// APIs, streaming, a prefix cache, prefill and decode speeds, vLLM's metric names.
// Demos and tests of the gateway put several of them behind one Model.
//
// It serves until SIGINT or SIGTERM, then waits for running requests up to
// --shutdown-timeout. Exit codes: 0 after a signal, 1 when it cannot serve, 2 for
// a command line it cannot read. See internal/enginesim for what is simulated.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"flexinfer.ai/gateway/internal/enginesim"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stderr))
}

// settings are the command line.
type settings struct {
	listen          string
	shutdownTimeout time.Duration
	engine          enginesim.Options
}

// run serves until ctx ends and returns the exit code.
func run(ctx context.Context, args []string, log io.Writer) int {
	s, err := parseFlags(args, log)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintf(log, "enginesim: %v\nRun enginesim --help for the flags.\n", err)
		return 2
	}
	engine := enginesim.New(s.engine)
	if err := engine.Start(s.listen); err != nil {
		fmt.Fprintf(log, "enginesim: %v\n", err)
		return 1
	}
	fmt.Fprintf(log, "enginesim: engine %s serves %s\n", engine.Name(), engine.URL())
	<-ctx.Done()
	fmt.Fprintf(log, "enginesim: engine %s stops; running requests have %v\n", engine.Name(), s.shutdownTimeout)
	deadline, cancel := context.WithTimeout(context.Background(), s.shutdownTimeout)
	defer cancel()
	if err := engine.Shutdown(deadline); err != nil {
		fmt.Fprintf(log, "enginesim: engine %s cuts what is still running: %v\n", engine.Name(), err)
		_ = engine.Close() // the process ends either way
	}
	return 0
}

func parseFlags(args []string, log io.Writer) (settings, error) {
	var s settings
	o := &s.engine
	set := flag.NewFlagSet("enginesim", flag.ContinueOnError)
	set.SetOutput(io.Discard) // run reports errors, once and without the list of flags
	set.StringVar(&s.listen, "listen", "127.0.0.1:8000", "`address` to listen on; port 0 takes a free one")
	set.DurationVar(&s.shutdownTimeout, "shutdown-timeout", 10*time.Second, "how long running requests may go on after a signal")
	set.StringVar(&o.Name, "name", "", "`name` in the X-Engine header (default: the address it listens on)")
	set.StringVar(&o.Model, "model", enginesim.DefaultModel, "model `name` to list; requests may name any")
	set.Func("served-model-name", "model `name` to serve, several by comma or by repeating the flag; requests that name another get 404", func(text string) error {
		o.ServedModelNames = append(o.ServedModelNames, strings.Split(text, ",")...)
		return nil
	})
	set.IntVar(&o.BlockSize, "block-size", enginesim.DefaultBlockSize, "`tokens` in one block of the prefix cache")
	set.IntVar(&o.CacheBlocks, "cache-blocks", enginesim.DefaultCacheBlocks, "size of the prefix cache in `blocks`")
	set.IntVar(&o.MaxNumSeqs, "max-num-seqs", enginesim.DefaultMaxNumSeqs, "`requests` that run at once; others wait")
	set.IntVar(&o.MaxModelLen, "max-model-len", 0, "most `tokens` of prompt and answer together; 0: no bound")
	set.Int64Var(&o.MaxBodyBytes, "max-body-bytes", enginesim.DefaultMaxBodyBytes, "largest request body in `bytes`")
	set.Float64Var(&o.PrefillTokensPerSecond, "prefill-speed", 8000, "uncached prompt tokens per second, all requests together; 0: takes no time")
	set.Float64Var(&o.DecodeTokensPerSecond, "decode-speed", 60, "output tokens per second of one request; 0: takes no time")
	set.Float64Var(&o.TimeScale, "time-scale", 1, "real seconds that a simulated second takes; 0.1 is ten times as fast")
	set.IntVar(&o.OutputTokens, "output-tokens", enginesim.DefaultOutputTokens, "`tokens` of an answer that the request does not limit")
	set.IntVar(&o.EmbeddingDimensions, "embedding-dimensions", enginesim.DefaultEmbeddingDimensions, "length of an embedding")
	set.BoolVar(&o.EarlyHeaders, "early-headers", false, "send the header of a streamed answer at once instead of with the first token")
	set.DurationVar(&o.KeepAliveTimeout, "keep-alive-timeout", 0, "close connections idle for so long; 0: never (uvicorn: 5s)")
	set.BoolVar(&o.HTTP2, "h2c", false, "also serve HTTP/2 without TLS")
	set.Func("fault", "fault in force from the start, as `JSON`, e.g. {\"kind\":\"status\",\"status\":503}; kinds: status, hang, delay, close, die, idle-close", func(text string) (err error) {
		o.Fault, err = enginesim.ParseFault([]byte(text))
		return err
	})
	if err := set.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprintf(log, "Usage: enginesim [flags]\n\nOne simulated inference engine. Flags:\n")
			set.SetOutput(log)
			set.PrintDefaults()
		}
		return s, err
	}
	if set.NArg() > 0 {
		return s, fmt.Errorf("unexpected argument %q; every setting is a flag", set.Arg(0))
	}
	if s.shutdownTimeout < 0 {
		return s, fmt.Errorf("shutdown timeout is %v; give a positive duration", s.shutdownTimeout)
	}
	return s, s.engine.Validate()
}
