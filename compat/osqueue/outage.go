package osqueue

import (
	"maps"
	"net/http"
	"strings"

	v1 "osqueue/client/api/v1"
)

// outageReads answers reads also while the bucket takes no writes, as the legacy broker does.
// The API refuses them then, because another cluster may have taken the queue over. Such a read
// is repeated on the state of this node: this cluster accepts no write meanwhile.
type outageReads struct{ api http.Handler }

// ServeHTTP implements http.Handler.
func (o outageReads) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !readsNewest(r.Method, r.URL.Path, r.URL.RawQuery) {
		o.api.ServeHTTP(w, r)
		return
	}
	before := maps.Clone(w.Header())
	a := &answer{ResponseWriter: w}
	o.api.ServeHTTP(a, r)
	if a.status == 0 {
		return
	}
	if tagOf(a.body.Bytes()) != v1.TagFlushLag {
		w.WriteHeader(a.status)
		_, _ = w.Write(a.body.Bytes()) // the client may have gone
		return
	}
	clear(w.Header())
	maps.Copy(w.Header(), before)
	own, target := *r, *r.URL
	target.RawQuery = onOwnState(target.RawQuery)
	own.URL, own.RequestURI = &target, target.RequestURI()
	o.api.ServeHTTP(w, &own)
}

// readsNewest reports whether a request is a read of the legacy broker: of the newest state, without
// a query other than a cursor.
func readsNewest(method, path, query string) bool {
	switch path {
	case v1.PathJobs, v1.PathStats, v1.PathState:
	default:
		return false
	}
	return method == http.MethodGet && (query == "" || strings.HasPrefix(query, v1.ParamCursor+"="))
}

// onOwnState returns the query of a read of the state of the node that gets it.
func onOwnState(query string) string {
	return strings.Trim(query+"&"+v1.ParamConsistency+"="+v1.ConsistencyLocal, "&")
}
