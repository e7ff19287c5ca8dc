package enginesim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// apiError is a refusal in the making; writeError gives it the shape of the API
// that the path belongs to.
type apiError struct {
	status  int
	message string
	param   string // the field at fault, empty when none is
	code    string // OpenAI's machine-readable code, empty for null
}

func (e apiError) Error() string { return e.message }

func invalid(param, format string, args ...any) apiError {
	return apiError{status: http.StatusBadRequest, message: fmt.Sprintf(format, args...), param: param}
}

type openAIError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

type anthropicError struct {
	Type  string `json:"type"`
	Error struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`
	RequestID string `json:"request_id"`
}

func isAnthropic(path string) bool {
	return strings.HasSuffix(path, "/v1/messages") || strings.Contains(path, "/v1/messages/")
}

// writeError answers with e in the shape of the request's API.
func writeError(w http.ResponseWriter, r *http.Request, e apiError) {
	if isAnthropic(r.URL.Path) {
		var body anthropicError
		body.Type = "error"
		body.Error.Type = anthropicErrorType(e.status)
		body.Error.Message = e.message
		body.RequestID = w.Header().Get("Request-Id")
		writeJSON(w, e.status, body)
		return
	}
	body := openAIError{Message: e.message, Type: openAIErrorType(e.status)}
	if e.param != "" {
		body.Param = &e.param
	}
	if e.code != "" {
		body.Code = &e.code
	}
	writeJSON(w, e.status, map[string]openAIError{"error": body})
}

func openAIErrorType(status int) string {
	switch {
	case status == http.StatusTooManyRequests:
		return "rate_limit_error"
	case status >= http.StatusInternalServerError:
		return "server_error"
	}
	return "invalid_request_error"
}

func anthropicErrorType(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusRequestEntityTooLarge:
		return "request_too_large"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	case http.StatusGatewayTimeout:
		return "timeout_error"
	case 529:
		return "overloaded_error"
	}
	if status >= http.StatusInternalServerError {
		return "api_error"
	}
	return "invalid_request_error"
}

// encodeJSON is json.Marshal with '&', '<' and '>' left as they are.
func encodeJSON(value any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}

// writeJSON sends value with a Content-Length. A write that fails means that the
// client is gone, which the exchange learns from its context.
func writeJSON(w http.ResponseWriter, status int, value any) {
	body, err := encodeJSON(value)
	if err != nil {
		http.Error(w, "cannot encode the answer", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
