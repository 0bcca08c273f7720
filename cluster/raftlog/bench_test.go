package raftlog

import (
	"fmt"
	"testing"

	"github.com/hashicorp/raft"
)

// BenchmarkStoreLogs stores entries as a leader does, each append with its answer, and reads them as
// the replication to two followers does.
func BenchmarkStoreLogs(b *testing.B) {
	for _, c := range []struct{ entries, size int }{{1, 200}, {8, 200}, {1, 20 << 10}} {
		for _, state := range []raft.RaftState{raft.Follower, raft.Leader} {
			b.Run(fmt.Sprintf("%v/%dx%d", state, c.entries, c.size), func(b *testing.B) { benchmarkStore(b, state, c.entries, c.size) })
		}
	}
}

func benchmarkStore(b *testing.B, state raft.RaftState, entries, size int) {
	l, err := OpenDir(b.TempDir(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	l.Serve(&node{state: state, voters: 3})
	data, last := make([]byte, size), uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		logs := make([]*raft.Log, entries)
		for i := range logs {
			last++
			logs[i] = &raft.Log{Index: last, Term: 1, Data: data}
		}
		if err := l.StoreLogs(logs); err != nil {
			b.Fatal(err)
		}
		for range 2 {
			for _, want := range logs {
				var got raft.Log
				if err := l.GetLog(want.Index, &got); err != nil {
					b.Fatal(err)
				}
			}
			if err := l.Await(last, nil); err != nil {
				b.Fatal(err)
			}
		}
		if last%4096 < uint64(entries) && last > 8192 {
			if err := l.DeleteRange(1, last-4096); err != nil {
				b.Fatal(err)
			}
		}
	}
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
}
