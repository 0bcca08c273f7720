package link

import (
	"fmt"
	"strings"
)

// Fault is a condition that was imposed on links. Safe for concurrent use.
type Fault struct {
	net   *Net
	cond  Condition
	links []Link

	// Under the lock of net.
	before map[*lane]Count // of lanes that there were when it began
	healed *Count          // its effects at its end
}

// Heal ends the fault; other faults continue. It may be called again.
func (f *Fault) Heal() {
	f.net.mu.Lock()
	defer f.net.mu.Unlock()
	f.net.healLocked(f)
}

// Count returns the counts of its links since it was imposed, and until it was healed.
func (f *Fault) Count() Count {
	f.net.mu.Lock()
	defer f.net.mu.Unlock()
	return f.countLocked()
}

// Hit reports whether the fault has had an effect so far. Effects of other faults on the same
// links do not count, unless they are of the same kind.
func (f *Fault) Hit() bool {
	n := f.Count()
	return f.cond.Cut && n.Withheld+n.Held > 0 ||
		(f.cond.Delay > 0 || f.cond.Jitter > 0 || f.cond.Rate > 0) && n.Delayed > 0 ||
		f.cond.Reset && n.Reset+n.Refused > 0
}

func (f *Fault) countLocked() Count {
	if f.healed != nil {
		return *f.healed
	}
	var sum Count
	for link, l := range f.net.lanes {
		if anyCovers(f.links, link) {
			sum = sum.plus(l.read().Minus(f.before[l]))
		}
	}
	return sum
}

// String describes the fault and its links.
func (f *Fault) String() string {
	names := make([]string, len(f.links))
	for i, l := range f.links {
		names[i] = l.String()
	}
	return fmt.Sprintf("%v: %s", f.cond, strings.Join(names, ", "))
}
