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
	if !readsNewest(r) {
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
	o.api.ServeHTTP(w, onOwnState(r))
}

// readsNewest reports whether r is a read of the legacy broker: of the newest state, without
// a query other than a cursor.
func readsNewest(r *http.Request) bool {
	switch r.URL.Path {
	case v1.PathJobs, v1.PathStats, v1.PathState:
	default:
		return false
	}
	return r.Method == http.MethodGet && (r.URL.RawQuery == "" || strings.HasPrefix(r.URL.RawQuery, v1.ParamCursor+"="))
}

// onOwnState returns r as a read of the state of the node that gets it.
func onOwnState(r *http.Request) *http.Request {
	own, target := *r, *r.URL
	target.RawQuery = strings.Trim(target.RawQuery+"&"+v1.ParamConsistency+"="+v1.ConsistencyLocal, "&")
	own.URL, own.RequestURI = &target, target.RequestURI()
	return &own
}
