package core

import (
	"crypto/sha256"
	"fmt"
	"sync"

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
	case find(known.t.ID) == nil: // not unknown: a node would wait for it to be made
		return nil, fmt.Errorf("%w: token %q was revoked, or has expired", auth.ErrToken, known.t.ID)
	case find(known.t.ID) == known.t && (known.t.ExpiresAt == 0 || known.t.ExpiresAt > now):
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
