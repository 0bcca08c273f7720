package client

import (
	"context"
	"net/http"
	"net/url"

	v1 "osqueue/client/api/v1"
)

// write returns a write that needs an idempotency key to be safe to repeat.
func (c *caller) write(ctx context.Context, op, method, path string, body []byte) call {
	return call{op: op, method: method, path: path, body: body, write: true, key: ownKey(ctx)}
}

// named is a call about one resource that has a name.
type named struct {
	op     string
	method string // of a write; "": POST
	prefix string
	name   string
	action string // "": no action
	query  url.Values
	in     any      // the body of a write; nil: body
	body   []byte   // nil: none
	safe   bool     // the write needs no idempotency key
	own    *Receipt // may be nil
}

// readName reads the resource w.name under w.prefix, or what an action on it returns.
func readName[T any](ctx context.Context, c *caller, w named) (T, error) {
	path, err := namePath(w.prefix, w.name, w.action)
	if err != nil {
		return *new(T), local(w.op, err)
	}
	return send[T](ctx, c, c.read(ctx, w.op, path, w.query).about(w.name))
}

// writeName sends a write about the resource w.name under w.prefix. The answer may
// be empty.
func writeName[T any](ctx context.Context, c *caller, w named) (T, error) {
	path, err := namePath(w.prefix, w.name, w.action)
	if err != nil {
		return *new(T), local(w.op, err)
	}
	k := call{op: w.op, name: w.name, method: w.method, path: path, query: w.query, write: true, own: w.own}
	if k.method == "" {
		k.method = http.MethodPost
	}
	if !w.safe {
		k.key = ownKey(ctx)
	}
	if k.body = w.body; w.in != nil {
		if k.body, err = encode(w.in); err != nil {
			return *new(T), local(w.op, err)
		}
	}
	return sendMaybe[T](ctx, c, k)
}

// writeDone is like writeName, for writes whose answer is not needed.
func writeDone(ctx context.Context, c *caller, w named) error {
	_, err := writeName[v1.Done](ctx, c, w)
	return err
}
