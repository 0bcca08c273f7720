package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	v1 "osqueue/client/api/v1"
)

// CreateToken makes an access token. The answer is the only place that has its secret. If the
// answer is lost, revoke the token, which Tokens lists, and make another one.
func (c *Admin) CreateToken(ctx context.Context, t v1.NewToken) (v1.TokenCreated, error) {
	return send[v1.TokenCreated](ctx, c.caller, call{op: "create token", path: v1.PathTokens, in: &t, write: true})
}

// Self returns the identity and the rights that the token of this client has.
func (c *Admin) Self(ctx context.Context) (v1.Self, error) {
	return send[v1.Self](ctx, c.caller, call{op: "show rights", path: v1.PathSelf})
}

// AuditPage returns entries of the audit log that one server keeps in memory. cursor is the
// NextCursor of its last answer, or "" for the oldest entry.
func (c *Admin) AuditPage(ctx context.Context, server, cursor string) (v1.AuditPage, error) {
	const op = "read audit log"
	base, err := c.cfg.baseURL(server)
	if err != nil {
		return v1.AuditPage{}, local(op, err)
	}
	k := call{op: op, path: v1.PathAudit}
	if cursor != "" {
		k.query = url.Values{v1.ParamCursor: {cursor}}
	}
	var page v1.AuditPage
	err = c.askOnce(ctx, base, k, func(body []byte) error { return decode(body, &page) })
	return page, err
}

// Tokens returns all access tokens, by id, without their secrets.
func (c *Admin) Tokens(ctx context.Context) ([]v1.AccessToken, error) {
	list, err := sendRead[v1.TokenList](ctx, c.caller, call{op: "list tokens", path: v1.PathTokens})
	return list.Tokens, err
}

// RevokeToken ends a token, at once or after an overlap.
func (c *Admin) RevokeToken(ctx context.Context, id string, overlap time.Duration) error {
	w := call{op: "revoke token", method: http.MethodDelete, prefix: v1.PathTokens, name: id, safe: true}
	if overlap > 0 {
		w.query = url.Values{v1.ParamOverlapMs: {strconv.FormatInt(overlap.Milliseconds(), 10)}}
	}
	return sendDone(ctx, c.caller, w)
}

// RotateToken makes a token with the rights of another one, which expires after the overlap.
// The new token may report on the jobs that the old one claimed.
func (c *Admin) RotateToken(ctx context.Context, id string, r v1.RotateToken) (v1.TokenCreated, error) {
	return sendWrite[v1.TokenCreated](ctx, c.caller, call{op: "rotate token", prefix: v1.PathTokens, name: id, action: v1.ActionRotate, in: &r, safe: true})
}
