package client

import (
	"context"
	"fmt"
	"strconv"

	"github.com/google/uuid"
)

// maxKey is the longest idempotency key that a server takes.
const maxKey = 256

type keyName struct{}

// WithIdempotencyKey returns a context whose writes carry that key: for 24 h the
// same write with the same key takes effect once, also if another process
// repeats it, and gets the first answer. A key belongs to one call; another
// call with it is refused. Jobs and batches without an id get one that follows
// from the key. Writes without a key of the caller's carry one of the client's
// own where nothing else makes their repetition harmless.
func WithIdempotencyKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, keyName{}, key)
}

// keyOf is the caller's key, or "".
func keyOf(ctx context.Context) string {
	key, _ := ctx.Value(keyName{}).(string)
	return key
}

// ownKey is the caller's key, or a new one.
func ownKey(ctx context.Context) string {
	if key := keyOf(ctx); key != "" {
		return key
	}
	return NewID()
}

// partKey is the key of the n-th of the calls, counted from 0, that are made for
// one of the caller's.
func partKey(key string, n int) string {
	if n == 0 {
		return key
	}
	return key + "." + strconv.Itoa(n)
}

// checkKey finds what no server would take.
func checkKey(key string) error {
	if len(key) > maxKey {
		return fmt.Errorf("the idempotency key has %d bytes; give 1 to %d", len(key), maxKey)
	}
	for _, r := range key {
		if r <= ' ' || r > '~' {
			return fmt.Errorf("the idempotency key %q has other than visible ASCII characters", key)
		}
	}
	return nil
}

// maker makes the ids that a call needs. With the caller's key they follow from
// it, so that the call made again by another process is the same.
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
