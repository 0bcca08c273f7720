// Package backoff has the rules for the wait of a failed job before its next attempt.
package backoff

import (
	"math"
	"math/bits"
	"slices"

	"osqueue/fsm/fsmpb"
)

// Backoff is the rule for the wait of a failed job before its next attempt. After n
// attempts a fixed backoff is base, a linear one base·n, an exponential one base·2^(n-1),
// at most the cap, lowered by up to Jitter percent.
type Backoff struct {
	Kind   Kind
	Jitter uint8 // percent; next to Kind, where it takes no memory
	BaseMs int64
	CapMs  int64 // 0: none
}

// Kind is the growth of a delay with the attempts.
type Kind uint8

// The kinds of backoff. Snapshots have these numbers: they must not change.
const (
	Unset Kind = iota
	None
	Fixed
	Linear
	Exponential

	NumKinds = iota
)

var names = [NumKinds]string{"", "none", "fixed", "linear", "exponential"}

// String returns the kind's name as used on the wire, "" for Unset.
func (k Kind) String() string {
	if k < NumKinds {
		return names[k]
	}
	return ""
}

// ParseKind reads the text of Kind.String; ok is false for any other text, and for "".
func ParseKind(name string) (k Kind, ok bool) {
	i := slices.Index(names[1:], name)
	return Kind(i + 1), i >= 0
}

// ToPB returns the record of the rule, nil for none.
func (b Backoff) ToPB() *fsmpb.Backoff {
	if b == (Backoff{}) {
		return nil
	}
	return &fsmpb.Backoff{Kind: uint32(b.Kind), BaseMs: b.BaseMs, CapMs: b.CapMs, JitterPercent: uint32(b.Jitter)}
}

// FromPB returns the rule of a record. Values that are too large become the largest ones.
func FromPB(p *fsmpb.Backoff) Backoff {
	return Backoff{
		Kind: Kind(min(p.GetKind(), math.MaxUint8)), BaseMs: p.GetBaseMs(), CapMs: p.GetCapMs(),
		Jitter: uint8(min(p.GetJitterPercent(), math.MaxUint8)),
	}
}

// Wait returns the wait after n attempts, in ms. The jitter is drawn from the random number of the
// log entry and the fencing token of the attempt, so that the jobs of one entry differ.
func (b Backoff) Wait(n int32, random, token uint64) int64 {
	return jittered(b.delay(n), b.Jitter, mix(random, token))
}

// delay returns the wait after n attempts, in ms, before jitter.
func (b Backoff) delay(n int32) int64 {
	delay := b.BaseMs
	switch b.Kind {
	case Fixed:
	case Linear:
		delay = saturatingProduct(b.BaseMs, uint64(max(n, 1)))
	case Exponential:
		delay = saturatingProduct(b.BaseMs, 1<<min(max(n, 1)-1, 63))
	default:
		return 0
	}
	if b.CapMs > 0 {
		delay = min(delay, b.CapMs)
	}
	return max(delay, 0)
}

// saturatingProduct returns a·n, or the largest int64 if that overflows; 0 if a is
// negative.
func saturatingProduct(a int64, n uint64) int64 {
	if a <= 0 {
		return 0
	}
	high, low := bits.Mul64(uint64(a), n)
	if high != 0 || low > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(low)
}

// jittered returns delay, lowered by a random part of up to percent of it.
func jittered(delay int64, percent uint8, random uint64) int64 {
	p := uint64(min(percent, 100)) * (random >> 32)
	high, low := bits.Mul64(uint64(delay), p)
	const whole = 100 << 32
	if high >= whole {
		return 0 // unreachable: p is below whole
	}
	taken, _ := bits.Div64(high, low, whole)
	return delay - int64(taken)
}

// mix derives a number for each job of an entry from the leader's random number (the
// finalizer of splitmix64, Steele et al. 2014).
func mix(random, token uint64) uint64 {
	z := random + token*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
