package core

import (
	"context"
	"errors"

	"osqueue/internal/auth"
	"osqueue/internal/limit"
	"osqueue/internal/web"
)

// shares bound what clients can keep open, in total and for each client.
type shares struct {
	Events  *limit.Slots // streams of events
	Streams *limit.Slots // of the stream protocol
	Waits   *limit.Slots // claims that wait for a job, and readers and workers that wait for logs
}

func newShares(l *Limits) shares {
	return shares{
		Events:  limit.NewSlots(l.Streams, 0),
		Streams: limit.NewSlots(streamsMax, 0),
		Waits:   limit.NewSlots(l.Waits, 0),
	}
}

// ClientFrom names the client of a request for its share: its token, or else its address, also
// that of a legacy client.
func ClientFrom(ctx context.Context, address string) string {
	if cred, ok := ctx.Value(CredentialKey{}).(*Credential); ok && cred.P != nil && cred.P.Kind != auth.KindLegacy {
		return cred.P.ID
	}
	return web.HostOf(address)
}

// Client names the client of c for its share.
func (c *Call) Client() string {
	if c.Principal != nil && c.Principal.Kind != auth.KindLegacy {
		return c.Principal.ID
	}
	return ClientFrom(c.Ctx, c.From)
}

// The parts of a request that waits that count as a further place. A place is some 16 KiB: the
// stack of the request, its body, and for each type about 300 bytes.
const (
	placeBytes = 16 << 10
	placeTypes = 32
)

// PlacesOf returns the places that a request which waits takes.
func PlacesOf(body, types int) int { return 1 + body/placeBytes + types/placeTypes }

// Enter takes a place for the client of c, who frees it by leave.
func (c *Call) Enter(l *limit.Slots, k Kind, what string) (leave func(), err error) {
	return c.EnterMany(l, 1, k, what)
}

// EnterMany is Enter for n places.
func (c *Call) EnterMany(l *limit.Slots, n int, k Kind, what string) (leave func(), err error) {
	client := c.Client()
	switch err := l.EnterMany(client, n); {
	case errors.Is(err, limit.ErrClient):
		return nil, Fail(k, "this node serves %d %s of client %s, the limit for one client; close some, or use another node", l.Each(), what, Shown(client))
	case err != nil:
		return nil, Fail(k, "this node serves %d %s, its limit; retry after a moment, or use another node", l.Total(), what)
	}
	return func() { l.LeaveMany(client, n) }, nil
}

// The connections of a server are bounded, in total and for one address, because each takes
// some 30 KiB. A connection over a bound is accepted nevertheless, so that its client learns
// why it is refused: /healthz, /readyz and /metrics answer on it, any other request gets 503,
// which closes the connection. Further connections are closed at once.

// streamsMax bounds the streams of one node. Each takes about 100 KiB.
const streamsMax = 2048
