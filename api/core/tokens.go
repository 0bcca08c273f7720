package core

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"osqueue/fsm"
	"osqueue/internal/auth"
)

// knownTokens keeps the principals of texts that were valid tokens, by the hash of the text, so
// that a request need not read and check its token again. A principal counts while the state has
// the same record of its token: a token that was changed or revoked has another one, or none.
type knownTokens struct {
	mu     sync.RWMutex
	byHash map[[sha256.Size]byte]knownToken
}

type knownToken struct {
	t *fsm.Token
	p *auth.Principal
}

// knownMax bounds the known texts. Beyond it all are forgotten. There may be fsm.TokensMax tokens.
const knownMax = 2 * fsm.TokensMax

// Authorize is auth.Authorize.
func (k *knownTokens) Authorize(text string, now int64, find func(id string) *fsm.Token) (*auth.Principal, error) {
	hash := sha256.Sum256([]byte(text))
	k.mu.RLock()
	known, found := k.byHash[hash]
	k.mu.RUnlock()
	switch {
	case !found:
	case find(known.t.Id) == nil: // not unknown: a node would wait for it to be made
		return nil, fmt.Errorf("%w: token %q was revoked, or has expired", auth.ErrToken, known.t.Id)
	case find(known.t.Id) == known.t && (known.t.ExpiresMs == 0 || known.t.ExpiresMs > now):
		return known.p, nil
	}
	var t *fsm.Token
	p, err := auth.Authorize(text, now, func(id string) *fsm.Token {
		t = find(id)
		return t
	})
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.byHash == nil || len(k.byHash) >= knownMax {
		k.byHash = make(map[[sha256.Size]byte]knownToken)
	}
	k.byHash[hash] = knownToken{t, p}
	return p, nil
}

// A node that follows a leader may lack tokens that exist: it may be behind, and a cluster that
// stands by lacks those that the active one has made since. So it asks the leader before it calls
// a token unknown. The leader is right if it is active: its state then has all that was committed
// before.

const (
	// TokenPatience bounds the wait for the leader's answer, and for a token that the leader knows.
	TokenPatience = time.Second
	TokenLook     = 20 * time.Millisecond
	// AsksAtOnce bounds the questions of a node at a time, also if all of its requests have forged
	// tokens.
	AsksAtOnce = 8
	// SelfMax bounds the answer of the leader, in bytes.
	SelfMax = 64 << 10
)

// ErrUnsure means that the state of this node lacks a token, but may lack tokens that exist.
var ErrUnsure = errors.New("cannot check the token: no active leader has answered, and this node may lack tokens that exist; " +
	"retry, or use another node")
