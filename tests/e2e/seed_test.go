package e2e

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// freshSeed returns OSQUEUE_SEED, or a random seed.
func freshSeed(t *testing.T) uint64 {
	t.Helper()
	s := os.Getenv("OSQUEUE_SEED")
	if s == "" {
		return uint64(time.Now().UnixNano())
	}
	seed, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatalf("OSQUEUE_SEED: %v", err)
	}
	return seed
}
