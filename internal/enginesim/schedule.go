package enginesim

import (
	"context"
	"strings"
	"time"
)

// sequence is one answer in the making: a prompt, and what came of it.
type sequence struct {
	chain  *tokenChain // the prompt, continued by the output
	limit  int         // the most tokens to generate
	length int         // tokens that will be generated, known from the start
	seed   uint64

	promptTokens int
	cachedTokens int
	outputTokens int
	text         strings.Builder
}

// newSequence prepares the choice-th answer to a prompt. limits.maxTokens 0
// leaves the length to the engine.
func (e *Engine) newSequence(prompt *tokenChain, choice int, limits outputLimits) *sequence {
	s := &sequence{chain: prompt.clone(), promptTokens: prompt.tokens, seed: prompt.digest() + uint64(choice)}
	s.length = max(e.options.OutputTokens, limits.minTokens)
	s.limit = limits.maxTokens
	if room := e.options.MaxModelLen - prompt.tokens; e.options.MaxModelLen > 0 && (s.limit == 0 || s.limit > room) {
		s.limit = room
	}
	if s.limit > 0 && (limits.ignoreEnd || s.length > s.limit) {
		s.length = s.limit
	}
	return s
}

// cut tells whether the limit ended the answer instead of its natural end.
func (s *sequence) cut() bool { return s.limit > 0 && s.length == s.limit }

// emitFunc receives the tokens of sequence i in order, each when its time has
// come. Its error ends the request.
type emitFunc func(i int, token string) error

// run takes the request through the engine: it waits for a slot, then prefills
// and decodes every sequence. It returns early with ctx's error when the client
// goes away, having given everything back.
func (e *Engine) run(ctx context.Context, x *exchange, seqs []*sequence, emit emitFunc) error {
	leave, err := e.enter(ctx, x)
	if err != nil {
		return err
	}
	defer leave()
	for i, s := range seqs {
		if err := e.runSequence(ctx, x, i, s, emit); err != nil {
			return err
		}
		e.metrics.finished(s.cut())
	}
	e.metrics.requestSeconds.Observe(time.Since(x.started).Seconds())
	return nil
}

// enter waits for a slot. On success the caller must call leave once.
func (e *Engine) enter(ctx context.Context, x *exchange) (leave func(), err error) {
	x.setPhase(phaseQueue)
	arrived := time.Now()
	e.waiting.Add(1)
	defer e.waiting.Add(-1)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case e.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	e.metrics.queueSeconds.Observe(time.Since(arrived).Seconds())
	e.running.Add(1)
	return func() {
		e.running.Add(-1)
		<-e.slots
	}, nil
}

func (e *Engine) runSequence(ctx context.Context, x *exchange, i int, s *sequence, emit emitFunc) error {
	held, err := e.prefill(ctx, x, s)
	defer func() { e.cache.release(s.chain.hashes[:held]) }()
	if err != nil {
		return err
	}
	x.setPhase(phaseDecode)
	text := newTextGenerator(s.seed)
	begin := time.Now()
	for s.outputTokens < s.length {
		if err := e.waitForToken(ctx, begin, s.outputTokens); err != nil {
			return err
		}
		token := text.next()
		s.chain.appendToken(token)
		s.text.WriteString(token)
		s.outputTokens++
		x.tokens.Add(1)
		e.metrics.generationTokens.Inc()
		if x.firstToken() {
			e.metrics.firstTokenSeconds.Observe(time.Since(x.started).Seconds())
		}
		if held == len(s.chain.hashes)-1 {
			held += e.cache.insert(s.chain.hashes[held:])
		}
		if err := emit(i, token); err != nil {
			return err
		}
	}
	return nil
}

// prefill computes the part of the prompt that is not cached, one request at a
// time, and returns the number of the chain's leading blocks it holds now, also
// when it fails.
func (e *Engine) prefill(ctx context.Context, x *exchange, s *sequence) (held int, err error) {
	x.setPhase(phasePrefill)
	select {
	case e.prefillTurn <- struct{}{}:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	defer func() { <-e.prefillTurn }()
	held, s.cachedTokens = e.cache.acquire(s.chain.hashes, s.promptTokens, e.options.BlockSize)
	e.metrics.promptTokens.Add(float64(s.promptTokens))
	if err := e.sleep(ctx, e.prefillTime(s.promptTokens-s.cachedTokens)); err != nil {
		return held, err
	}
	return held + e.cache.insert(s.chain.hashes[held:]), nil
}

// waitForToken waits until the token with the given index is due. Tokens have
// fixed times, so that a late timer does not slow the rest.
func (e *Engine) waitForToken(ctx context.Context, begin time.Time, index int) error {
	if e.options.DecodeTokensPerSecond == 0 {
		return ctx.Err()
	}
	due := begin.Add(e.scaled(float64(index) / e.options.DecodeTokensPerSecond))
	return e.sleep(ctx, time.Until(due))
}

func (e *Engine) prefillTime(tokens int) time.Duration {
	if e.options.PrefillTokensPerSecond == 0 {
		return 0
	}
	return e.scaled(float64(tokens) / e.options.PrefillTokensPerSecond)
}

// scaled turns simulated seconds into real time.
func (e *Engine) scaled(seconds float64) time.Duration {
	return time.Duration(seconds * e.options.TimeScale * float64(time.Second))
}

// sleep waits for d of real time, or until ctx ends, whose error it returns.
func (e *Engine) sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// runStream is run for an answer that is streamed through events.
func (e *Engine) runStream(ctx context.Context, x *exchange, events *eventWriter, seqs []*sequence, emit emitFunc) error {
	if e.options.EarlyHeaders {
		if err := events.begin(); err != nil {
			return err
		}
	}
	return e.run(ctx, x, seqs, emit)
}

// discardToken is the emitFunc of an answer that is sent whole.
func discardToken(int, string) error { return nil }
