package raftlog

import (
	"testing"

	"github.com/hashicorp/raft"

	"osqueue/cluster/transport"
)

func TestLogCacheIsBoundedInBytes(t *testing.T) {
	b := open(t, Memory(), Options{})
	for i := range uint64(100) {
		if err := b.StoreLog(&raft.Log{Index: i + 1, Data: make([]byte, 1<<20)}); err != nil {
			t.Fatal(err)
		}
	}
	held := 0
	for _, l := range b.tail.entries {
		held += transport.EntryBytes(l)
	}
	if held > cacheBytes || held != b.tail.cacheBytes {
		t.Errorf("the cache has %d bytes, reckons with %d, and may have %d", held, b.tail.cacheBytes, cacheBytes)
	}
	for _, i := range []uint64{1, 100} {
		var l raft.Log
		if err := b.GetLog(i, &l); err != nil || l.Index != i {
			t.Errorf("entry %d: %v %v", i, l.Index, err)
		}
	}
}
