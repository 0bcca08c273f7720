// Package storage is a small view of an object store: whole objects, read and
// written under conditions, each version named by an opaque token.
//
// # Problem
//
// osqueue keeps its truth in a bucket and coordinates through it by
// compare-and-swap. The stores it runs on (S3, GCS, a directory, memory) agree
// on little but that, and their clients retry, time out and report in their
// own ways. This package reduces them to one contract that the rest of the
// program can reason about, and a conformance suite (storagetest) holds every
// driver to it.
//
// # Outcomes
//
// A conditional write ends in one of three ways, and a caller has to treat
// them differently:
//
//	Committed  the write is durable; the answer carries its version
//	Conflict   the condition did not hold; nothing was written
//	Unknown    the store may or may not have applied it, now or later
//
// Unknown is a fact of networks, not a failure to hide: a driver never retries
// a conditional write by itself (an SDK that did would report Conflict for its
// own success), and never turns Unknown into one of the other two. Settling it
// needs knowledge of the content and is the caller's duty.
package storage

import (
	"context"
	"errors"
	"maps"
	"sync"
)

// Version is a driver's opaque token for one version of an object: an ETag, a
// generation, a counter. Versions are compared for equality only. The empty
// Version names no version.
//
// A store may bring the same token back when the same bytes are written again
// (S3 does), so writers that need to tell versions apart put a nonce into each.
type Version string

// Outcome says how a conditional write ended.
type Outcome int

// The three outcomes of a conditional write. The zero value is Unknown: a
// forgotten assignment must never read as success.
const (
	Unknown Outcome = iota
	Committed
	Conflict
)

// String returns the outcome's name in lower case.
func (o Outcome) String() string {
	switch o {
	case Committed:
		return "committed"
	case Conflict:
		return "conflict"
	default:
		return "unknown"
	}
}

// Errors that every driver reports by wrapping.
var (
	// ErrNotFound is returned by Get for an object that does not exist.
	ErrNotFound = errors.New("object not found")
	// ErrThrottled marks an operation that was refused, unapplied, by a rate
	// limit: the store's (429, 503 SlowDown) or the throttle decorator's.
	ErrThrottled = errors.New("rate limit exceeded")
	// ErrInvalidKey is returned for a key that ValidateKey refuses.
	ErrInvalidKey = errors.New("invalid object key")
)

// Write is the answer to a conditional write.
type Write struct {
	Outcome Outcome
	// Version is the new object's version; set only when Outcome is Committed.
	Version Version
	// Err says what went wrong when Outcome is Unknown, and may give detail
	// when it is Conflict. It is nil when Outcome is Committed.
	//
	// A write whose Outcome is Unknown and whose Err wraps ErrThrottled,
	// ErrInvalidKey or ErrContent was not applied and never will be.
	Err error
}

// Object is one whole object as read.
type Object struct {
	Data    []byte
	Version Version
}

// Info describes an object in a listing.
type Info struct {
	Key  string
	Size int64
}

// Bucket is an object store under one prefix. Implementations are safe for
// concurrent use. Every method honours its context's deadline and cancellation.
type Bucket interface {
	// Get returns the whole object. A read that starts after a Committed write
	// has returned sees that write or a later one. ErrNotFound when absent.
	Get(ctx context.Context, key string) (Object, error)

	// PutIfAbsent creates key if no object has that name. Committed means
	// durable and visible to every later Get, from any process.
	PutIfAbsent(ctx context.Context, key string, data []byte) Write

	// PutIfMatch replaces key if its current version is v. An absent object is
	// a Conflict. Of any number of concurrent writes that name the same
	// version at most one is Committed. The empty Version, and one that
	// another driver made, match nothing.
	PutIfMatch(ctx context.Context, key string, data []byte, v Version) Write

	// List calls fn for every object whose key starts with prefix, in
	// ascending byte order of keys, until fn returns false. Objects written or
	// deleted during the listing may or may not appear.
	List(ctx context.Context, prefix string, fn func(Info) bool) error

	// Delete removes key unconditionally. Deleting an absent object succeeds.
	Delete(ctx context.Context, key string) error

	// Close releases what the driver holds. The Bucket is not used afterwards.
	Close() error
}

// Op names an operation of Bucket, Streamer or Signer, for metrics and for fault rules.
type Op string

// The operations that reach the store. Those of Signer are carried out there later, by others.
const (
	OpGet         Op = "get"
	OpPutIfAbsent Op = "put_if_absent"
	OpPutIfMatch  Op = "put_if_match"
	OpList        Op = "list"
	OpDelete      Op = "delete"
	OpPutStream   Op = "put_stream"
	OpGetRange    Op = "get_range"
	OpStat        Op = "stat"
	OpSignPut     Op = "sign_put"
	OpSignGet     Op = "sign_get"
)

// IsWrite reports whether op answers with a Write.
func (o Op) IsWrite() bool { return o == OpPutIfAbsent || o == OpPutIfMatch || o == OpPutStream }

// Streams reports whether op takes as long as its bytes, and for a read as its reader: a time limit of
// one request does not fit it.
func (o Op) Streams() bool { return o == OpPutStream || o == OpGetRange }

// MaxBatch is the most keys that DeleteBatch takes.
const MaxBatch = 1000

// BatchDeleter is implemented by a Bucket that removes several objects with one request.
type BatchDeleter interface {
	// DeleteBatch removes up to MaxBatch keys unconditionally, in no particular order.
	// Deleting an absent object succeeds. It returns an error for each key whose object may
	// still be there; an empty map says that all are gone.
	DeleteBatch(ctx context.Context, keys []string) map[string]error
}

// deleteParallel is how many objects DeleteAll removes at a time where there are no batches.
const deleteParallel = 8

// DeleteAll removes keys in no particular order: with batches if b has them, and otherwise several
// at a time. It returns an error for each key whose object may still be there.
func DeleteAll(ctx context.Context, b Bucket, keys []string) map[string]error {
	batches, ok := b.(BatchDeleter)
	if !ok {
		return DeleteEach(ctx, b, keys)
	}
	failed := make(map[string]error)
	for len(keys) > 0 {
		n := min(len(keys), MaxBatch)
		maps.Copy(failed, batches.DeleteBatch(ctx, keys[:n]))
		keys = keys[n:]
	}
	return failed
}

// DeleteEach is DeleteAll with a request for each key.
func DeleteEach(ctx context.Context, b Bucket, keys []string) map[string]error {
	failed := make(map[string]error)
	var mu sync.Mutex
	var group sync.WaitGroup
	slots := make(chan struct{}, deleteParallel)
	for _, key := range keys {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			if err := b.Delete(ctx, key); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed[key] = err
			}
		})
	}
	group.Wait()
	return failed
}
