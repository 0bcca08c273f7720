// Package idtable finds things by their ids, in a hash table that takes about 18 bytes for each,
// where a map with the ids as keys takes 30 to 55.
package idtable

import (
	"hash/maphash"
	"math/bits"
)

// Table has items by their ids. Make one with New. It is not safe for concurrent use.
//
// The hashing is linear: the table grows and shrinks by one bucket at a time, which takes items
// from one other bucket or returns them to it. So no change moves all items, and the table frees
// memory as its items are removed. If a bucket is full, its further items are in an overflow
// bucket. The items of a bucket stand without gaps. It keeps the hash of each, so that neither a
// search nor the growth of the table reads other items, which are seldom in the caches of the
// processor.
//
// Hashes are seeded by chance, against ids that are made to collide. Nothing depends on the
// order of items in the table.
type Table[T any] struct {
	id       func(*T) string
	seed     maphash.Seed
	len      int
	buckets  int
	segments []*[segmentBuckets]bucket[T] // with room for the buckets
}

const (
	bucketItems    = 8
	segmentBuckets = 64 // are allocated together

	// The table grows if it has more items in a bucket on average, and shrinks if it has fewer.
	bucketFull, bucketEmpty = 7, 5
)

// bucket has up to 8 items.
type bucket[T any] struct {
	hashes [bucketItems]uint32
	items  [bucketItems]*T
	more   *bucket[T]
}

// New returns an empty table of items that have an id.
func New[T any](id func(*T) string) *Table[T] { return &Table[T]{id: id, seed: maphash.MakeSeed()} }

// Len returns the number of items.
func (x *Table[T]) Len() int { return x.len }

// Hash returns the hash of an id.
func (x *Table[T]) Hash(id string) uint32 { return uint32(maphash.String(x.seed, id)) }

// topBit returns the largest power of two that is not greater than n, or 0.
func topBit(n int) int { return 1 << bits.Len(uint(n)) >> 1 }

// bucket returns bucket i.
func (x *Table[T]) bucket(i int) *bucket[T] { return &x.segments[i/segmentBuckets][i%segmentBuckets] }

// of returns the bucket of a hash: the lowest bits of the hash choose it, one bit less if they
// are beyond the last bucket.
func (x *Table[T]) of(hash uint32) *bucket[T] {
	all := topBit(x.buckets-1)*2 - 1
	i := int(hash) & max(all, 0)
	if i >= x.buckets {
		i &= all >> 1
	}
	return x.bucket(i)
}

// find returns the bucket and place of the item with an id, or nil.
func (x *Table[T]) find(id string, hash uint32) (*bucket[T], int) {
	if x.len == 0 {
		return nil, 0
	}
	for b := x.of(hash); b != nil; b = b.more {
		for i, j := range &b.items {
			if b.hashes[i] == hash && j != nil && x.id(j) == id {
				return b, i
			}
		}
	}
	return nil, 0
}

// Get returns the item with an id, or nil.
func (x *Table[T]) Get(id string) *T {
	if b, i := x.find(id, x.Hash(id)); b != nil {
		return b.items[i]
	}
	return nil
}

// Put adds an item, or replaces the one with its id.
func (x *Table[T]) Put(j *T) {
	hash := x.Hash(x.id(j))
	if b, i := x.find(x.id(j), hash); b != nil {
		b.items[i] = j
		return
	}
	x.Add(j, hash)
}

// Has reports whether there is an item with the id that has the hash.
func (x *Table[T]) Has(id string, hash uint32) bool {
	b, _ := x.find(id, hash)
	return b != nil
}

// Add adds an item with the hash of its id, which no other item has.
func (x *Table[T]) Add(j *T, hash uint32) {
	if x.len >= x.buckets*bucketFull {
		x.grow()
	}
	x.len++
	x.of(hash).add(j, hash)
}

func (b *bucket[T]) add(j *T, hash uint32) {
	for {
		for i, other := range &b.items {
			if other == nil {
				b.items[i], b.hashes[i] = j, hash
				return
			}
		}
		if b.more == nil {
			b.more = new(bucket[T])
		}
		b = b.more
	}
}

// Remove removes the item with an id.
func (x *Table[T]) Remove(id string) {
	hash := x.Hash(id)
	b, i := x.find(id, hash)
	if b == nil {
		return
	}
	x.len--
	last := x.of(hash)
	var before *bucket[T]
	for ; last.more != nil; last = last.more {
		before = last
	}
	k := last.used() - 1
	b.items[i], b.hashes[i] = last.items[k], last.hashes[k]
	last.items[k] = nil
	if k == 0 && before != nil {
		before.more = nil
	}
	if x.buckets > 1 && x.len < x.buckets*bucketEmpty {
		x.shrink()
	}
}

func (b *bucket[T]) used() int {
	n := 0
	for n < bucketItems && b.items[n] != nil {
		n++
	}
	return n
}

// grow adds a bucket, which takes the items of another one that belong to it.
func (x *Table[T]) grow() {
	i := x.buckets
	if i%segmentBuckets == 0 {
		x.segments = append(x.segments, new([segmentBuckets]bucket[T]))
	}
	x.buckets++
	if i > 0 {
		x.spread(i - topBit(i))
	}
}

// shrink removes the last bucket, whose items return to the one that it took them from.
func (x *Table[T]) shrink() {
	x.buckets--
	x.spread(x.buckets)
	if x.buckets%segmentBuckets == 0 {
		x.segments[len(x.segments)-1] = nil
		x.segments = x.segments[:len(x.segments)-1]
	}
}

// spread moves the items of bucket i to the buckets where they belong.
func (x *Table[T]) spread(i int) {
	old := *x.bucket(i)
	*x.bucket(i) = bucket[T]{}
	for b := &old; b != nil; b = b.more {
		for i := range b.used() {
			x.of(b.hashes[i]).add(b.items[i], b.hashes[i])
		}
	}
}
