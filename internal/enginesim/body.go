package enginesim

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
)

// receivedBody is a request body, whole, as it arrived.
type receivedBody struct {
	bytes []byte
	sum   string // SHA-256 in hex
}

func (b receivedBody) reader() io.ReadCloser { return io.NopCloser(bytes.NewReader(b.bytes)) }

// readBody reads the whole body, at most limit bytes (*http.MaxBytesError over it).
func readBody(w http.ResponseWriter, r *http.Request, limit int64) (receivedBody, error) {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err != nil {
		return receivedBody{}, err
	}
	sum := sha256.Sum256(data)
	return receivedBody{bytes: data, sum: hex.EncodeToString(sum[:])}, nil
}

// refuseBody answers a request whose body could not be read. Short of its end the
// client is gone, and there is nobody to answer.
func (e *Engine) refuseBody(w http.ResponseWriter, r *http.Request, x *exchange, err error) {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		x.finish()
		writeError(w, r, apiError{
			status:  http.StatusRequestEntityTooLarge,
			message: "the request body is larger than this engine's limit; send a smaller one or raise --max-body-bytes",
		})
		return
	}
	x.cancel()
	panic(http.ErrAbortHandler)
}

// fields is a JSON object by member name, exact case, the last of duplicates.
type fields map[string]json.RawMessage

// parseFields reads a JSON object as the engines' own parser does: a UTF-8
// byte-order mark is skipped, and NaN and infinities count as numbers.
func parseFields(body []byte) (fields, error) {
	body = bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))
	var f fields
	err := json.Unmarshal(body, &f)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		err = json.Unmarshal(replaceConstants(body), &f)
	}
	switch {
	case err != nil:
		return nil, invalid("", "the request body is not a JSON object: %v", err)
	case f == nil:
		return nil, invalid("", "the request body is null; send a JSON object")
	}
	return f, nil
}

// replaceConstants returns text with NaN, Infinity and -Infinity outside of
// strings replaced by numbers of the same length.
func replaceConstants(text []byte) []byte {
	constants := [][]byte{[]byte("NaN"), []byte("-Infinity"), []byte("Infinity")}
	out := bytes.Clone(text)
	inString := false
	for i := 0; i < len(out); i++ {
		switch {
		case inString && out[i] == '\\':
			i++
		case out[i] == '"':
			inString = !inString
		case !inString:
			for _, constant := range constants {
				if bytes.HasPrefix(out[i:], constant) {
					copy(out[i:], bytes.Repeat([]byte("1"), len(constant)))
				}
			}
		}
	}
	return out
}

// has tells whether a member is there and not null.
func (f fields) has(name string) bool {
	raw, ok := f[name]
	return ok && string(raw) != "null"
}

// text returns a string member; absent or null: "".
func (f fields) text(name string) (string, error) {
	if !f.has(name) {
		return "", nil
	}
	var value string
	if json.Unmarshal(f[name], &value) != nil {
		return "", invalid(name, "%s must be a string", name)
	}
	return value, nil
}

// flag returns a boolean member, fallback where it is absent or null.
func (f fields) flag(name string, fallback bool) (bool, error) {
	if !f.has(name) {
		return fallback, nil
	}
	var value bool
	if json.Unmarshal(f[name], &value) != nil {
		return false, invalid(name, "%s must be true or false", name)
	}
	return value, nil
}

// count returns an integer member of at least lowest; absent or null: 0.
func (f fields) count(name string, lowest int) (int, error) {
	if !f.has(name) {
		return 0, nil
	}
	var value float64
	err := json.Unmarshal(f[name], &value)
	if err != nil || value != math.Trunc(value) || value < float64(lowest) || value > math.MaxInt32 {
		return 0, invalid(name, "%s must be an integer of at least %d", name, lowest)
	}
	return int(value), nil
}

// object returns an object member; absent or null: an empty one.
func (f fields) object(name string) (fields, error) {
	if !f.has(name) {
		return fields{}, nil
	}
	var value fields
	if json.Unmarshal(f[name], &value) != nil {
		return nil, invalid(name, "%s must be an object", name)
	}
	return value, nil
}
