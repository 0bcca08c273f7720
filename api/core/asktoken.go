package core

import (
	"errors"
	"time"
)

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
