package fsm

import (
	"math"
	"math/bits"
)

// backoff returns how long, in ms, a failed job waits for its next attempt, by the job's
// rule or else its type's.
func (m *Machine) backoff(j *Job) int64 {
	b := j.Options().Backoff
	if b.Kind == BackoffUnset {
		s := m.settingsOf(j)
		if s == nil {
			return 0
		}
		b = s.Backoff
	}
	return jittered(b.delay(j.Attempts), b.Jitter, mix(m.random, j.Execution().Token))
}

// delay returns the wait after n attempts, in ms, before jitter.
func (b Backoff) delay(n int32) int64 {
	delay := b.BaseMs
	switch b.Kind {
	case BackoffFixed:
	case BackoffLinear:
		delay = saturatingProduct(b.BaseMs, uint64(max(n, 1)))
	case BackoffExponential:
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
