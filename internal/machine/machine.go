// Package machine describes the machine of this process: how much memory the process may use,
// for defaults that follow from the size of the machine, and the identity of its network stack.
package machine

import "sync"

// Memory returns the bytes of memory that this process may use: those of the machine, or of
// its control group if that has fewer. It returns 0 if the size is unknown.
var Memory = sync.OnceValue(func() int64 {
	size := total()
	if limit := groupLimit(); limit > 0 && (size == 0 || limit < size) {
		return limit
	}
	return size
})
