package client

import (
	"context"
	"net/http"
	"net/url"

	v1 "osqueue/client/api/v1"
)

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
