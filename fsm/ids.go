package fsm

import (
	"hash/maphash"
	"math/bits"
)

// jobIDs finds jobs by their ids. It is a hash table that takes about 18 bytes for a job, where
// a map with the ids as keys takes 30 to 55.
//
// The hashing is linear: the table grows and shrinks by one bucket at a time, which takes jobs
// from one other bucket or returns them to it. So no entry pays for the move of all jobs, and
// a queue that was drained gives its memory back. A bucket that is full continues in another
// one. The jobs of a bucket stand without gaps. It keeps the hash of each, so that neither a search nor the growth of the
// table reads other jobs, which are seldom in the caches of the processor.
//
// Hashes are seeded by chance, against ids that are made to collide. Nothing depends on the
// order of jobs in the table.
type jobIDs struct {
	seed     maphash.Seed
	len      int
	buckets  int
	segments []*[segmentBuckets]idBucket // with room for the buckets
}

const (
	bucketJobs     = 8
	segmentBuckets = 64 // are allocated together

	// The table grows if it has more jobs in a bucket on average, and shrinks if it has fewer.
	bucketFull, bucketEmpty = 7, 5
)

// idBucket has up to 8 jobs.
type idBucket struct {
	hashes [bucketJobs]uint32
	jobs   [bucketJobs]*Job
	more   *idBucket
}

func newJobIDs() jobIDs { return jobIDs{seed: maphash.MakeSeed()} }

func (x *jobIDs) hash(id string) uint32 { return uint32(maphash.String(x.seed, id)) }

// topBit returns the largest power of two that is not greater than n, or 0.
func topBit(n int) int { return 1 << bits.Len(uint(n)) >> 1 }

// bucket returns bucket i.
func (x *jobIDs) bucket(i int) *idBucket { return &x.segments[i/segmentBuckets][i%segmentBuckets] }

// of returns the bucket of a hash: the lowest bits of the hash choose it, one bit less if they
// are beyond the last bucket.
func (x *jobIDs) of(hash uint32) *idBucket {
	all := topBit(x.buckets-1)*2 - 1
	i := int(hash) & max(all, 0)
	if i >= x.buckets {
		i &= all >> 1
	}
	return x.bucket(i)
}

// find returns the bucket and place of the job with an id, or nil.
func (x *jobIDs) find(id string, hash uint32) (*idBucket, int) {
	if x.len == 0 {
		return nil, 0
	}
	for b := x.of(hash); b != nil; b = b.more {
		for i, j := range &b.jobs {
			if b.hashes[i] == hash && j != nil && j.ID == id {
				return b, i
			}
		}
	}
	return nil, 0
}

// get returns the job with an id, or nil.
func (x *jobIDs) get(id string) *Job {
	if b, i := x.find(id, x.hash(id)); b != nil {
		return b.jobs[i]
	}
	return nil
}

// put adds j, or replaces the job with its id.
func (x *jobIDs) put(j *Job) {
	hash := x.hash(j.ID)
	if b, i := x.find(j.ID, hash); b != nil {
		b.jobs[i] = j
		return
	}
	x.add(j, hash)
}

// has reports whether there is a job with an id.
func (x *jobIDs) has(id string, hash uint32) bool {
	b, _ := x.find(id, hash)
	return b != nil
}

// add adds j, whose id no other job has.
func (x *jobIDs) add(j *Job, hash uint32) {
	if x.len >= x.buckets*bucketFull {
		x.grow()
	}
	x.len++
	x.of(hash).add(j, hash)
}

func (b *idBucket) add(j *Job, hash uint32) {
	for {
		for i, other := range &b.jobs {
			if other == nil {
				b.jobs[i], b.hashes[i] = j, hash
				return
			}
		}
		if b.more == nil {
			b.more = new(idBucket)
		}
		b = b.more
	}
}

// remove removes the job with an id.
func (x *jobIDs) remove(id string) {
	hash := x.hash(id)
	b, i := x.find(id, hash)
	if b == nil {
		return
	}
	x.len--
	last := x.of(hash)
	var before *idBucket
	for ; last.more != nil; last = last.more {
		before = last
	}
	k := last.used() - 1
	b.jobs[i], b.hashes[i] = last.jobs[k], last.hashes[k]
	last.jobs[k] = nil
	if k == 0 && before != nil {
		before.more = nil
	}
	if x.buckets > 1 && x.len < x.buckets*bucketEmpty {
		x.shrink()
	}
}

func (b *idBucket) used() int {
	n := 0
	for n < bucketJobs && b.jobs[n] != nil {
		n++
	}
	return n
}

// grow adds a bucket, which takes the jobs of another one that belong to it.
func (x *jobIDs) grow() {
	i := x.buckets
	if i%segmentBuckets == 0 {
		x.segments = append(x.segments, new([segmentBuckets]idBucket))
	}
	x.buckets++
	if i > 0 {
		x.spread(i - topBit(i))
	}
}

// shrink removes the last bucket, whose jobs return to the one that it took them from.
func (x *jobIDs) shrink() {
	x.buckets--
	x.spread(x.buckets)
	if x.buckets%segmentBuckets == 0 {
		x.segments[len(x.segments)-1] = nil
		x.segments = x.segments[:len(x.segments)-1]
	}
}

// spread moves the jobs of bucket i to the buckets where they belong.
func (x *jobIDs) spread(i int) {
	old := *x.bucket(i)
	*x.bucket(i) = idBucket{}
	for b := &old; b != nil; b = b.more {
		for i := range b.used() {
			x.of(b.hashes[i]).add(b.jobs[i], b.hashes[i])
		}
	}
}

// all calls fn for every job, in no particular order.
func (x *jobIDs) all(fn func(*Job)) {
	for i := range x.buckets {
		for b := x.bucket(i); b != nil; b = b.more {
			for _, j := range b.jobs[:b.used()] {
				fn(j)
			}
		}
	}
}
