package api

import (
	"errors"
	"net/http"
	"strings"

	v1 "osqueue/client/api/v1"
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

// clientOf names the client of a request for its share: its token, or else its address.
func clientOf(r *http.Request) string {
	if cred, ok := r.Context().Value(credentialKey{}).(*credential); ok && cred.p != nil {
		return cred.p.ID
	}
	if len(r.Header[v1.HeaderForwarded]) > 0 { // another node adds the address of its client
		if list := r.Header["X-Forwarded-For"]; len(list) > 0 {
			all := list[len(list)-1]
			return strings.TrimSpace(all[strings.LastIndexByte(all, ',')+1:])
		}
	}
	return hostOf(r.RemoteAddr)
}

// ClientOf names the client of a request that the server has identified, for the shares of other
// contracts.
func ClientOf(r *http.Request) string { return clientOf(r) }

// enter takes a place for the client of c, who frees it by leave.
func (c *call) enter(l *share.Limit, k kind, what string) (leave func(), err error) {
	client := clientOf(c.r)
	if c.principal != nil {
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
