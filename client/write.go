package client

import (
	"context"
	"net/http"

	v1 "osqueue/client/api/v1"
)

// write returns a write that needs an idempotency key to be safe to repeat.
func (c *Client) write(ctx context.Context, op, method, path string, body []byte) call {
	return call{op: op, method: method, path: path, body: body, write: true, key: ownKey(ctx)}
}

// writeName sends a write about the resource w.name under w.prefix. The answer may
// be empty.
func writeName[T any](ctx context.Context, c *Client, w named) (T, error) {
	path, err := namePath(w.prefix, w.name, w.action)
	if err != nil {
		return *new(T), local(w.op, err)
	}
	method := w.method
	if method == "" {
		method = http.MethodPost
	}
	k := c.write(ctx, w.op, method, path, w.body)
	k.own, k.name = w.own, w.name
	return sendMaybe[T](ctx, c, k)
}

// named is a write about one resource that has a name.
type named struct {
	op     string
	method string // "": POST
	prefix string
	name   string
	action string // "": no action
	body   []byte
	own    *Receipt // may be nil
}

// writeDone is like writeName, for writes whose answer is not needed.
func writeDone(ctx context.Context, c *Client, w named) error {
	_, err := writeName[v1.Done](ctx, c, w)
	return err
}
