package enginesim

import (
	"net/http"
	"slices"
)

// modelsCreated is the time that models claim to be from, in Unix seconds.
const modelsCreated = 1735689600

type modelEntry struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

type modelList struct {
	Object string       `json:"object"`
	Data   []modelEntry `json:"data"`
}

func newModelEntry(name string) modelEntry {
	return modelEntry{ID: name, Object: "model", Created: modelsCreated, OwnedBy: "enginesim"}
}

// serveModels is GET /v1/models.
func (e *Engine) serveModels(w http.ResponseWriter, _ *http.Request) {
	list := modelList{Object: "list"}
	for _, name := range e.servedModels() {
		list.Data = append(list.Data, newModelEntry(name))
	}
	writeJSON(w, http.StatusOK, list)
}

// serveModel is GET /v1/models/{name}; a name may hold slashes.
func (e *Engine) serveModel(w http.ResponseWriter, r *http.Request, name string) {
	if !slices.Contains(e.servedModels(), name) {
		writeError(w, r, unknownModel(name))
		return
	}
	writeJSON(w, http.StatusOK, newModelEntry(name))
}
