package api

import (
	"errors"
	"net/http"
	"strings"

	v1 "osqueue/client/api/v1"
	"osqueue/internal/auth"
	"osqueue/internal/share"
)

// shares bound what clients can keep open, in total and for each client.
type shares struct {
	events  *share.Limit // streams of events
	streams *share.Limit // of the stream protocol
	waits   *share.Limit // claims that wait for a job
}

func newShares(l *Limits) shares {
	return shares{
		events:  share.New(l.Streams, 0),
		streams: share.New(streamsMax, 0),
		waits:   share.New(l.Waits, 0),
	}
}

// clientOf names the client of a request for its share: its token, or else its address, also
// that of a legacy client.
func clientOf(r *http.Request) string {
	if cred, ok := r.Context().Value(credentialKey{}).(*credential); ok && cred.p != nil && cred.p.Kind != auth.KindLegacy {
		return cred.p.ID
	}
	if from := forwardedFor(r); from != "" {
		return from
	}
	return hostOf(r.RemoteAddr)
}

// forwardedFor returns the address of the client whose request another node has forwarded, or
// "". That node adds it to the list of proxies.
func forwardedFor(r *http.Request) string {
	list := r.Header["X-Forwarded-For"]
	if len(r.Header[v1.HeaderForwarded]) == 0 || len(list) == 0 {
		return ""
	}
	all := list[len(list)-1]
	return strings.TrimSpace(all[strings.LastIndexByte(all, ',')+1:])
}

// ClientOf names the client of a request that the server has identified, for the shares of other
// contracts.
func ClientOf(r *http.Request) string { return clientOf(r) }

// enter takes a place for the client of c, who frees it by leave.
func (c *call) enter(l *share.Limit, k kind, what string) (leave func(), err error) {
	client := clientOf(c.r)
	if c.principal != nil && c.principal.Kind != auth.KindLegacy {
		client = c.principal.ID
	}
	switch err := l.Enter(client); {
	case errors.Is(err, share.ErrClient):
		return nil, fail(k, "this node serves %d %s of client %s, which is the limit of one client; close some, or use another node", l.Each(), what, shown(client))
	case err != nil:
		return nil, fail(k, "this node serves %d %s, which is its limit; retry after a moment, or at another node", l.Total(), what)
	}
	return func() { l.Leave(client) }, nil
}
