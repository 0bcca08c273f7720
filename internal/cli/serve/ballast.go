package serve

import "runtime"

// ballastBytes is the number of unused bytes that count as heap in use.
const ballastBytes = 64 << 20

// holdBallast makes the garbage collector of a small heap run less often and does not
// affect a large heap. The collector waits until the heap has doubled, and the ballast
// counts as heap. The ballast is never touched, so it takes no memory. Without it, the
// collector runs dozens of times a second for a heap of 20 MB under load. release frees
// the ballast. GOGC keeps its usual meaning.
func holdBallast() (release func()) {
	ballast := make([]byte, ballastBytes)
	return func() { runtime.KeepAlive(ballast) }
}
