package api

import (
	"context"
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
	waits   *share.Limit // claims that wait for a job, and readers and workers that wait for logs
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
func clientOf(r *http.Request) string { return clientFrom(r.Context(), addressOf(r)) }

func clientFrom(ctx context.Context, address string) string {
	if cred, ok := ctx.Value(credentialKey{}).(*credential); ok && cred.p != nil && cred.p.Kind != auth.KindLegacy {
		return cred.p.ID
	}
	return hostOf(address)
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

// client names the client of c for its share.
func (c *call) client() string {
	if c.principal != nil && c.principal.Kind != auth.KindLegacy {
		return c.principal.ID
	}
	return clientFrom(c.ctx, c.from)
}

// The parts of a request that waits that count as a further place. A place is some 16 KiB: the
// stack of the request, its body, and for each type about 300 bytes.
const (
	placeBytes = 16 << 10
	placeTypes = 32
)

// placesOf returns the places that a request which waits takes.
func placesOf(body, types int) int { return 1 + body/placeBytes + types/placeTypes }

// enter takes a place for the client of c, who frees it by leave.
func (c *call) enter(l *share.Limit, k kind, what string) (leave func(), err error) {
	return c.enterMany(l, 1, k, what)
}

// enterMany is enter for n places.
func (c *call) enterMany(l *share.Limit, n int, k kind, what string) (leave func(), err error) {
	client := c.client()
	switch err := l.EnterMany(client, n); {
	case errors.Is(err, share.ErrClient):
		return nil, fail(k, "this node serves %d %s of client %s, the limit for one client; close some, or use another node", l.Each(), what, shown(client))
	case err != nil:
		return nil, fail(k, "this node serves %d %s, its limit; retry after a moment, or use another node", l.Total(), what)
	}
	return func() { l.LeaveMany(client, n) }, nil
}
