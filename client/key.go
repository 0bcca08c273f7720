package client

import (
	"context"
	"fmt"
	"strconv"

	"github.com/google/uuid"
)

// maxKey is the length of the longest idempotency key that a server accepts, in
// bytes.
const maxKey = 256

type keyName struct{}

// WithIdempotencyKey returns a context whose writes carry the given idempotency
// key. For 24 h, a write with the same key takes effect once, also if another
// process repeats it; every repetition gets the first answer. Use a key for one
// call only: the server refuses another call with the same key.
//
// Jobs and batches without an id get ids that are derived from the key. Without a
// key of the caller, the client makes one for each write that nothing else makes
// safe to repeat.
func WithIdempotencyKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, keyName{}, key)
}

// keyOf returns the key in the context, or "".
func keyOf(ctx context.Context) string {
	key, _ := ctx.Value(keyName{}).(string)
	return key
}

// ownKey returns the key in the context, or a new one.
func ownKey(ctx context.Context) string {
	if key := keyOf(ctx); key != "" {
		return key
	}
	return NewID()
}

// partKey returns the key of request n, counted from 0, of a call that needs
// several requests.
func partKey(key string, n int) string {
	if n == 0 {
		return key
	}
	return key + "." + strconv.Itoa(n)
}

// checkKey returns an error if no server would accept the key.
func checkKey(key string) error {
	if len(key) > maxKey {
		return fmt.Errorf("the idempotency key has %d bytes; give 1 to %d", len(key), maxKey)
	}
	for _, r := range key {
		if r <= ' ' || r > '~' {
			return fmt.Errorf("the idempotency key %q contains characters other than visible ASCII", key)
		}
	}
	return nil
}

// maker makes the ids of one call. If the context has a key, the ids are derived
// from it, so that another process that repeats the call sends the same ids.
type maker struct {
	key string
	n   int
}

func newMaker(ctx context.Context) *maker { return &maker{key: keyOf(ctx)} }

func (m *maker) id() string {
	if m.key == "" {
		return NewID()
	}
	m.n++
	return uuid.NewSHA1(uuid.NameSpaceOID, []byte(m.key+"/"+strconv.Itoa(m.n))).String()
}
