package enginesim

import "net/http"

// Events of a streamed Response. Every one carries its type and a number that
// counts up from 0.

type eventHead struct {
	Type           string `json:"type"`
	SequenceNumber int    `json:"sequence_number"`
}

type responseEvent struct {
	eventHead
	Response *response `json:"response"`
}

type itemEvent struct {
	eventHead
	OutputIndex int           `json:"output_index"`
	Item        outputMessage `json:"item"`
}

type partPlace struct {
	ItemID       string `json:"item_id"`
	OutputIndex  int    `json:"output_index"`
	ContentIndex int    `json:"content_index"`
}

type partEvent struct {
	eventHead
	partPlace
	Part outputText `json:"part"`
}

type deltaEvent struct {
	eventHead
	partPlace
	Delta    string     `json:"delta"`
	Logprobs []struct{} `json:"logprobs"`
}

type textEvent struct {
	eventHead
	partPlace
	Text     string     `json:"text"`
	Logprobs []struct{} `json:"logprobs"`
}

// responseStream numbers and sends the events of one Response.
type responseStream struct {
	events *eventWriter
	next   int
	place  partPlace
}

func (s *responseStream) head(kind string) eventHead {
	head := eventHead{Type: kind, SequenceNumber: s.next}
	s.next++
	return head
}

func (s *responseStream) response(kind string, answer *response) error {
	return s.events.event(kind, responseEvent{s.head(kind), answer})
}

func (s *responseStream) item(kind string, message outputMessage) error {
	return s.events.event(kind, itemEvent{eventHead: s.head(kind), Item: message})
}

func (s *responseStream) part(kind, text string) error {
	return s.events.event(kind, partEvent{s.head(kind), s.place, newOutputText(text)})
}

func (s *responseStream) delta(token string) error {
	const kind = "response.output_text.delta"
	return s.events.event(kind, deltaEvent{s.head(kind), s.place, token, []struct{}{}})
}

func (s *responseStream) text(text string) error {
	const kind = "response.output_text.done"
	return s.events.event(kind, textEvent{s.head(kind), s.place, text, []struct{}{}})
}

// open sends what comes before the first token.
func (s *responseStream) open(answer *response, message outputMessage) error {
	if err := s.response("response.created", answer); err != nil {
		return err
	}
	if err := s.response("response.in_progress", answer); err != nil {
		return err
	}
	if err := s.item("response.output_item.added", message); err != nil {
		return err
	}
	return s.part("response.content_part.added", "")
}

// close sends what comes between the last token and the final event.
func (s *responseStream) close(message outputMessage) error {
	text := message.Content[0].Text
	if err := s.text(text); err != nil {
		return err
	}
	if err := s.part("response.content_part.done", text); err != nil {
		return err
	}
	return s.item("response.output_item.done", message)
}

func (e *Engine) streamResponse(w http.ResponseWriter, r *http.Request, x *exchange, answer *response, message outputMessage, s *sequence, history []turn) error {
	stream := &responseStream{events: newEventWriter(w), place: partPlace{ItemID: message.ID}}
	err := e.runStream(r.Context(), x, stream.events, []*sequence{s}, func(_ int, token string) error {
		if s.outputTokens == 1 {
			if err := stream.open(answer, message); err != nil {
				return err
			}
		}
		return stream.delta(token)
	})
	if err != nil {
		return err
	}
	message = answer.complete(message, s)
	if err := stream.close(message); err != nil {
		return err
	}
	e.rememberResponse(answer, history, s)
	x.finish()
	return stream.response("response."+answer.Status, answer)
}
