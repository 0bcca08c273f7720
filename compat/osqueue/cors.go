package osqueue

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Origins are the web origins whose pages may read answers in a browser and open
// WebSockets. The zero value allows any origin, as the legacy broker does.
type Origins struct {
	none bool
	only []string
}

// The values of ParseOrigins that are not origins.
const (
	OriginsAny  = "any"
	OriginsNone = "none"
)

// ParseOrigins parses "any", "none", or origins separated by commas, as browsers send
// them: https://dash.example.test:8443.
func ParseOrigins(text string) (Origins, error) {
	switch text {
	case OriginsAny, "*":
		return Origins{}, nil
	case OriginsNone, "":
		return Origins{none: true}, nil
	}
	var o Origins
	for one := range strings.SplitSeq(text, ",") {
		one = strings.ToLower(strings.TrimSpace(one))
		u, err := url.Parse(one)
		if err != nil || u.Scheme == "" || u.Host == "" || one != u.Scheme+"://"+u.Host {
			return o, fmt.Errorf("%q is not an origin: write %s, %s, or a list like https://dash.example.test:8443,http://localhost:3000",
				one, OriginsAny, OriginsNone)
		}
		o.only = append(o.only, one)
	}
	return o, nil
}

// Any reports whether pages of any origin are allowed.
func (o *Origins) Any() bool { return !o.none && len(o.only) == 0 }

// Named returns the origins that are allowed by name. The caller must not change them.
func (o *Origins) Named() []string { return o.only }

// allows reports whether pages of the origin may read answers.
func (o *Origins) allows(origin string) bool {
	return !o.none && (len(o.only) == 0 || slices.Contains(o.only, strings.ToLower(origin)))
}

// The values of the CORS headers, the same for every request.
const (
	exposedHeaders = "Connect-Protocol-Version"
	allowedMethods = "GET, POST, OPTIONS"
	allowedHeaders = "Content-Type, Connect-Protocol-Version, Connect-Timeout-Ms"
)

// mark sets the headers that let pages read the answer.
func (o *Origins) mark(w http.ResponseWriter, r *http.Request) {
	if o.none {
		return
	}
	h := w.Header()
	h.Set("Vary", "Origin")
	h.Set("Access-Control-Expose-Headers", exposedHeaders)
	if origin := r.Header.Get("Origin"); origin != "" && o.allows(origin) {
		h.Set("Access-Control-Allow-Origin", origin)
	}
}

// preflight answers a browser's preflight request, in the same way for every route.
func (o *Origins) preflight(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	if r.Header.Get("Origin") == "" || r.Header.Get("Access-Control-Request-Method") == "" {
		h.Set("Content-Type", "text/plain")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte("Invalid Preflight Request")) // the client may have gone
		return
	}
	h.Set("Access-Control-Allow-Methods", allowedMethods)
	h.Set("Access-Control-Allow-Headers", allowedHeaders)
	w.WriteHeader(http.StatusNoContent)
}
