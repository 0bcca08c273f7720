package api

import (
	_ "embed"
	"net/http"
	"strconv"
)

// openAPI is the description of the API. A server hands out its own, so that it
// is never that of another version.
//
//go:embed openapi.yaml
var openAPI []byte

// ClusterOpenAPI is the description of the requests under /cluster/v1/, which are not part of the
// API: package serve composes them.
//
//go:embed cluster.yaml
var ClusterOpenAPI []byte

// yamlType is the media type of YAML by RFC 9512.
var yamlType = []string{"application/yaml"}

var openAPILength = []string{strconv.Itoa(len(openAPI))}

// showOpenAPI is GET /openapi.yaml.
func showOpenAPI(h *httpCall) error {
	header := h.Header()
	header["Content-Type"], header["Content-Length"] = yamlType, openAPILength
	h.WriteHeader(http.StatusOK)
	_, _ = h.Write(openAPI) // the client may have gone
	return nil
}

// ServeClusterOpenAPI answers with ClusterOpenAPI.
func ServeClusterOpenAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header()["Content-Type"] = yamlType
	_, _ = w.Write(ClusterOpenAPI) // the client may have gone
}
