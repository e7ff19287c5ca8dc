// Package enginesim is a simulated inference engine on real sockets: it speaks
// the HTTP APIs of model servers, keeps a prefix cache and takes time like one,
// and generates text without a model. Demos, tests and benchmarks of the gateway
// put several of them behind one Model.
//
// What is simulated faithfully, because routing is judged by it:
//   - APIs: OpenAI chat completions, completions, responses, embeddings, models;
//     Anthropic messages and count_tokens; JSON and server-sent events in each
//     API's own shapes, errors included.
//   - Prefix cache: prompts become tokens, tokens become chained block hashes;
//     a bounded table of blocks with reference counts evicts the least recently
//     used, the tail of a prompt before its head. Generated tokens enter the
//     cache too, so the next turn of a conversation hits them.
//   - Time: a request queues for one of MaxNumSeqs slots, prefills what the cache
//     does not hold (one prefill at a time, as it saturates the device), then
//     decodes at its own steady speed. TimeScale stretches or shrinks all of it.
//   - Metrics under vLLM's names; usage with cached tokens in each API's field.
//   - Aborts: a client that goes away stops its request at once, in the queue,
//     in prefill and in decode, and is counted with the time it was noticed.
//
// What is not simulated: sampling parameters, stop strings, log probabilities,
// tool calls and structured output are accepted and change nothing. A request
// with several prompts or n > 1 runs its sequences one after another in one slot.
// A prompt larger than the cache is served; the blocks that find no room are
// simply not kept.
//
// The text depends on the prompt's tokens alone: same prompt, same answer, on
// every engine. Which engine answered stands in the header X-Engine, the hash of
// the body as it arrived in X-Engine-Body-Sha256.
//
// Beside the APIs, for tests: /echo/… (what arrived, header order kept), /ws
// (WebSocket echo), /debug/requests (counters, cancellations), /debug/fault
// (failures on demand, see Fault), /reset_prefix_cache.
//
// Concurrency: an Engine and all of its methods are safe from any goroutine.
// New starts nothing; Start listens and serves until Close or Shutdown.
package enginesim
