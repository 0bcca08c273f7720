// Package probe checks that a bucket supports conditional writes, before a
// cluster uses it.
//
// Some stores that speak S3 accept If-None-Match and If-Match and ignore them.
// On such a store every compare-and-swap succeeds, and the writes of others are
// lost without a trace. Run writes to an object of its own and refuses a bucket
// that commits a write whose condition does not hold.
//
// A probe costs at most eight writes, two reads and one delete; any number of
// nodes may probe the same bucket at once, since each uses a key of its own. The
// object is deleted in the end, also after a failure.
//
// A write that a store commits against its condition is proof. A refusal is not:
// stores answer 409 now and then to a conditional write that they have not looked
// at, S3 when several come in at once, as they do here. So what should succeed is
// tried a few more times, which costs as many more writes.
package probe

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"osqueue/internal/sleep"
	"osqueue/storage"
)

// Prefix begins the keys of probe objects. One that was left behind by a
// killed process may be deleted at any time.
const Prefix = "probe/"

// ErrUnsafe is wrapped by the error for a bucket that breaks its promises.
// Any other error of Run means that the probe could not be finished, and may
// be tried again.
var ErrUnsafe = errors.New("the bucket is not safe to use")

// Collect deletes the probe objects that an earlier call has seen as well, and
// returns those that it has seen now. A late write of a probe that had ended leaves
// one behind. There must be minutes between two calls.
func Collect(ctx context.Context, b storage.Bucket, earlier map[string]bool) (map[string]bool, error) {
	seen := make(map[string]bool)
	var old []string
	err := b.List(ctx, Prefix, func(i storage.Info) bool {
		if earlier[i.Key] {
			old = append(old, i.Key)
		} else {
			seen[i.Key] = true
		}
		return len(seen)+len(old) < collectMost
	})
	if err != nil {
		return nil, fmt.Errorf("list %q: %w", Prefix, err)
	}
	for _, key := range old {
		if err := b.Delete(ctx, key); err != nil {
			return seen, fmt.Errorf("delete the old probe object %q: %w", key, err)
		}
	}
	return seen, nil
}

// collectMost bounds how many objects one Collect looks at.
const collectMost = 1000

const (
	racers         = 4
	cleanupTimeout = 10 * time.Second

	attempts   = 5 // at what should succeed and is refused
	firstPause = 20 * time.Millisecond
)

// RunFor runs the probe of the bucket with the given URL for at most limit.
func RunFor(ctx context.Context, b storage.Bucket, url string, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := Run(ctx, b); err != nil {
		return fmt.Errorf("the bucket %s is not usable: %w", url, err)
	}
	return nil
}

// Run probes b. It ends with ctx at the latest, plus ten seconds for cleaning
// up.
func Run(ctx context.Context, b storage.Bucket) (err error) {
	id := rand.Text()
	p := &prober{bucket: b, key: Prefix + id, id: id}
	defer func() {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		if derr := b.Delete(clean, p.key); derr != nil && err == nil {
			err = fmt.Errorf("probe the bucket: could not delete the probe object %q: %w", p.key, derr)
		}
	}()
	for _, step := range []func(context.Context) error{
		p.matchAbsent, p.create, p.createAgain, p.raceToReplace, p.replaceStale,
	} {
		if err := step(ctx); err != nil {
			return fmt.Errorf("probe the bucket: %w", err)
		}
	}
	return nil
}

type prober struct {
	bucket  storage.Bucket
	key     string
	id      string
	created storage.Version
}

// content is different in every write, so that no two share an ETag.
func (p *prober) content(what string) []byte { return []byte(p.id + " " + what) }

func (p *prober) matchAbsent(ctx context.Context) error {
	w := p.bucket.PutIfMatch(ctx, p.key, p.content("from nowhere"), "1")
	return expect(w, storage.Conflict, "the store replaced an object that does not exist")
}

func (p *prober) create(ctx context.Context) error {
	var w storage.Write
	err := insist(ctx, func() (refused bool) {
		w = p.bucket.PutIfAbsent(ctx, p.key, p.content("first"))
		return w.Outcome == storage.Conflict
	})
	if err != nil {
		return err
	}
	p.created = w.Version
	if err := expect(w, storage.Committed, "the store refused to create a new object"); err != nil {
		return err
	}
	return p.holds(ctx, "first", w.Version)
}

// insist repeats what is refused, after pauses that double.
func insist(ctx context.Context, try func() (refused bool)) error {
	for attempt := 1; try() && attempt < attempts; attempt++ {
		if !sleep.For(ctx, firstPause<<attempt) {
			return fmt.Errorf("the probe did not finish: %w", ctx.Err())
		}
	}
	return nil
}

func (p *prober) createAgain(ctx context.Context) error {
	w := p.bucket.PutIfAbsent(ctx, p.key, p.content("second"))
	return expect(w, storage.Conflict, "the store ignores If-None-Match: it created an existing object again")
}

// raceToReplace sends several writes with the same condition at once. A store
// that checks first and writes later commits more than one.
func (p *prober) raceToReplace(ctx context.Context) error {
	winner, won := 0, storage.Write{}
	var failed error
	err := insist(ctx, func() (refused bool) {
		winner, won, failed = p.race(ctx)
		return failed == nil && won.Outcome == storage.Conflict
	})
	switch {
	case err != nil:
		return err
	case failed != nil:
		return failed
	case won.Outcome == storage.Conflict:
		return unsafe("the store refused to replace an object whose current version was given")
	}
	return p.holds(ctx, fmt.Sprint("racer ", winner), won.Version)
}

// race is one race and the write that won it: a Conflict if all were refused.
func (p *prober) race(ctx context.Context) (winner int, won storage.Write, err error) {
	var group sync.WaitGroup
	var writes [racers]storage.Write
	for i := range writes {
		group.Go(func() {
			writes[i] = p.bucket.PutIfMatch(ctx, p.key, p.content(fmt.Sprint("racer ", i)), p.created)
		})
	}
	group.Wait()
	won.Outcome = storage.Conflict
	for i, w := range writes {
		switch {
		case w.Outcome == storage.Unknown:
			return 0, won, fmt.Errorf("the probe did not finish: %w", w.Err)
		case w.Outcome == storage.Committed && won.Outcome == storage.Committed:
			return 0, won, unsafe("the store let two writes replace the same version: it ignores If-Match, or does not check it " +
				"atomically")
		case w.Outcome == storage.Committed:
			winner, won = i, w
		}
	}
	return winner, won, nil
}

func (p *prober) replaceStale(ctx context.Context) error {
	w := p.bucket.PutIfMatch(ctx, p.key, p.content("stale"), p.created)
	return expect(w, storage.Conflict, "the store ignores If-Match: a write replaced a version that it did not name")
}

func (p *prober) holds(ctx context.Context, what string, v storage.Version) error {
	o, err := p.bucket.Get(ctx, p.key)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return unsafe("a read after a write does not find the object")
	case err != nil:
		return fmt.Errorf("the probe did not finish: %w", err)
	case !bytes.Equal(o.Data, p.content(what)) || o.Version != v:
		return unsafe("a read after a write does not return what was written")
	}
	return nil
}

func expect(w storage.Write, want storage.Outcome, otherwise string) error {
	switch w.Outcome {
	case want:
		return nil
	case storage.Unknown:
		return fmt.Errorf("the probe did not finish: %w", w.Err)
	default:
		return unsafe(otherwise)
	}
}

func unsafe(why string) error {
	return fmt.Errorf("%w: %s; use a store with conditional writes (S3, GCS, or a directory)", ErrUnsafe, why)
}
