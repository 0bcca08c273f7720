package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	v1 "osqueue/client/api/v1"
)

// Workers returns the registered workers, ordered by name.
func (c *Admin) Workers(ctx context.Context) ([]v1.Worker, error) {
	list := call{op: "list workers", path: v1.PathWorkers}
	return collect(pages(ctx, c.caller, list, func(p v1.WorkerList) ([]v1.Worker, string) { return p.Workers, p.NextCursor }))
}

// Worker returns a registered worker and the first of its running jobs.
func (c *Admin) Worker(ctx context.Context, name string) (v1.Worker, error) {
	return sendRead[v1.Worker](ctx, c.caller, call{op: "get worker", prefix: v1.PathWorkers, name: name})
}

// RegisterWorker registers a worker, or extends its registration.
func (c *Admin) RegisterWorker(ctx context.Context, info WorkerInfo) error {
	k := call{op: "register worker", path: v1.PathWorkers, in: &info, write: true, passing: true, hollow: true}
	_, err := send[v1.WorkerAnswer](ctx, c.caller, k)
	return err
}

// QuietWorker makes a registered worker quiet: it gets no new jobs, and finishes those that it
// runs. It stays quiet until UnquietWorker, over changes of leader, and if it registers again
// within 24 h.
func (c *Admin) QuietWorker(ctx context.Context, name string) error {
	return sendDone(ctx, c.caller, call{op: "quiet worker", prefix: v1.PathWorkers, name: name, action: v1.ActionQuiet, safe: true})
}

// UnquietWorker lets a quiet worker get jobs again.
func (c *Admin) UnquietWorker(ctx context.Context, name string) error {
	return sendDone(ctx, c.caller, call{op: "unquiet worker", prefix: v1.PathWorkers, name: name, action: v1.ActionUnquiet, safe: true})
}

// RemoveWorker marks a worker dead: it removes the registration and releases the
// jobs of the worker at once. A worker that was quiet gets jobs again if it comes back.
func (c *Admin) RemoveWorker(ctx context.Context, name string) error {
	return c.RemoveInstance(ctx, name, "")
}

// RemoveInstance is RemoveWorker for one instance: jobs of other workers of that name go on, and
// one that has registered since stays registered.
func (c *Admin) RemoveInstance(ctx context.Context, name, instance string) error {
	w := call{op: "remove worker", method: http.MethodDelete, prefix: v1.PathWorkers, name: name, safe: true}
	if instance != "" {
		w.query = url.Values{v1.ParamInstance: {instance}}
	}
	return sendDone(ctx, c.caller, w)
}

// PutHook makes a webhook, or replaces the one of that name. The answer has the secret if this
// request made one, and is the only place that has it. Package webhook verifies deliveries.
func (c *Admin) PutHook(ctx context.Context, name string, h v1.NewHook) (v1.HookPut, error) {
	return sendWrite[v1.HookPut](ctx, c.caller, call{op: "put hook", method: http.MethodPut, prefix: v1.PathHooks, name: name, in: &h, safe: true})
}

// Hooks returns all webhooks, by name, without their secrets.
func (c *Admin) Hooks(ctx context.Context) ([]v1.Hook, error) {
	list, err := sendRead[v1.HookList](ctx, c.caller, call{op: "list hooks", path: v1.PathHooks})
	return list.Hooks, err
}

// Hook returns the webhook of that name.
func (c *Admin) Hook(ctx context.Context, name string) (v1.Hook, error) {
	return sendRead[v1.Hook](ctx, c.caller, call{op: "get hook", prefix: v1.PathHooks, name: name})
}

// DeleteHook deletes a webhook and the events that were not delivered.
func (c *Admin) DeleteHook(ctx context.Context, name string) error {
	return sendDone(ctx, c.caller, call{op: "delete hook", method: http.MethodDelete, prefix: v1.PathHooks, name: name})
}

// TestHook sends an event of the kind hook.test. The answer has its id; HookDeliveries shows
// how it fares.
func (c *Admin) TestHook(ctx context.Context, name string) (v1.HookTested, error) {
	return sendWrite[v1.HookTested](ctx, c.caller, call{op: "test hook", prefix: v1.PathHooks, name: name, action: v1.ActionTest})
}

// HookDeliveries returns the oldest events in the outbox of a webhook, and the last attempts
// of the leader.
func (c *Admin) HookDeliveries(ctx context.Context, name string) (v1.HookDeliveries, error) {
	return sendRead[v1.HookDeliveries](ctx, c.caller, call{
		op: "get deliveries", prefix: v1.PathHooks, name: name, action: v1.ActionDeliveries,
		query: url.Values{v1.ParamConsistency: {v1.ConsistencyLeader}},
	})
}

// CreateToken makes an access token. The answer is the only place that has its secret. If the
// answer is lost, revoke the token, which Tokens lists, and make another one.
func (c *Admin) CreateToken(ctx context.Context, t v1.NewToken) (v1.TokenCreated, error) {
	return send[v1.TokenCreated](ctx, c.caller, call{op: "create token", path: v1.PathTokens, in: &t, write: true})
}

// Members returns the members of the cluster as its leader sees them, and the nodes that are admitted to it.
func (c *Admin) Members(ctx context.Context) ([]v1.Member, error) {
	list, err := send[v1.MemberList](ctx, c.caller, call{op: "list members", path: v1.PathMembers})
	return list.Members, err
}

// AddMember admits a node to the cluster: the node of that name may join.
func (c *Admin) AddMember(ctx context.Context, m v1.NewMember) (v1.MemberChanged, error) {
	return sendWrite[v1.MemberChanged](ctx, c.caller, call{op: "add member", path: v1.PathMembers, in: &m, safe: true})
}

// RemoveMember removes a node from the cluster; force allows one that runs.
func (c *Admin) RemoveMember(ctx context.Context, name string, force bool) (v1.MemberChanged, error) {
	w := call{op: "remove member", method: http.MethodDelete, prefix: v1.PathMembers, name: name, safe: true}
	if force {
		w.query = url.Values{v1.ParamForce: {"true"}}
	}
	return sendWrite[v1.MemberChanged](ctx, c.caller, w)
}

// ChangeMember promotes a node (v1.ActionPromote), demotes it (v1.ActionDemote), or gives it the leadership
// (v1.ActionLead; the name "-" is the voter whose log is the newest).
func (c *Admin) ChangeMember(ctx context.Context, name, action string) (v1.MemberChanged, error) {
	return sendWrite[v1.MemberChanged](ctx, c.caller, call{op: action + " member", prefix: v1.PathMembers, name: name, action: action, safe: true})
}

// Drain stops one server in order: it hands leadership over, answers the requests that it has, and its process ends.
func (c *Admin) Drain(ctx context.Context, server string) (v1.Draining, error) {
	const op = "drain"
	base, err := c.cfg.baseURL(server)
	if err != nil {
		return v1.Draining{}, local(op, err)
	}
	var out v1.Draining
	err = c.askOnce(ctx, base, call{op: op, method: http.MethodPost, path: v1.PathDrain}, func(body answer) error { return body.decode(&out) })
	return out, err
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
	err = c.askOnce(ctx, base, k, func(body answer) error { return body.decode(&page) })
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
