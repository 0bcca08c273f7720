package inbox

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/storage"
)

// letter is a file with its bytes and its mutation.
type letter struct {
	file
	data     []byte
	mutation *fsmpb.Mutation
}

// outcome is the result for some files.
type outcome struct {
	done     int     // taken or rejected
	refused  bool    // at least one file is to be tried again
	failures []error // of single files, which are to be tried again
}

func (o *outcome) add(p outcome) {
	o.done += p.done
	o.refused = o.refused || p.refused
	o.failures = append(o.failures, p.failures...)
}

// failuresMax is the number of failed files that ends a round. A file that cannot be read
// must not block the others, and a leader must not try every file when the bucket is
// unavailable.
const failuresMax = 10

// takeAll takes files batch by batch, until the log or too many files fail.
func (r *leaderTerm) takeAll(ctx context.Context, files []file) (outcome, error) {
	var all outcome
	for batch := range r.batches(files) {
		one, err := r.take(ctx, batch)
		all.add(one)
		if err != nil || len(all.failures) >= failuresMax || ctx.Err() != nil {
			return all, errors.Join(append(all.failures, err)...)
		}
	}
	return all, errors.Join(all.failures...)
}

// batches splits files into runs that fit into a log entry and into memory.
func (r *leaderTerm) batches(files []file) iter.Seq[[]file] {
	return func(yield func([]file) bool) {
		for len(files) > 0 {
			n, bytes := 1, files[0].size
			for n < min(len(files), r.bounds.batchFiles) && bytes+files[n].size <= r.bounds.batchBytes {
				bytes += files[n].size
				n++
			}
			if !yield(files[:n]) {
				return
			}
			files = files[n:]
		}
	}
}

// take takes one batch.
func (r *leaderTerm) take(ctx context.Context, batch []file) (outcome, error) {
	read, all := r.read(ctx, batch)
	var good []letter
	var rejects []rejection
	for _, l := range read {
		m, err := r.cfg.Parse(l.id, l.data)
		if err != nil {
			rejects = append(rejects, rejection{letter: l, reason: err})
			continue
		}
		m.Request = r.requestOf(l)
		l.mutation = m
		good = append(good, l)
	}
	refused, decided, err := r.propose(ctx, good)
	all.add(decided)
	if err != nil {
		return all, err
	}
	all.add(r.rejectAll(ctx, append(rejects, refused...)))
	return all, nil
}

// requestOf returns the request of the enqueue, which makes it take effect once. The space
// separates the key from the keys of API clients, which only have visible characters. Up to
// level 6 the key had a colon: if the machine remembers a file under that key, which an
// earlier release has taken and could not remove, the file keeps it.
func (r *leaderTerm) requestOf(l letter) *fsmpb.Request {
	sum := sha256.Sum256(l.data)
	req := &fsmpb.Request{Key: "inbox:" + l.id, Fingerprint: sum[:]}
	if !r.cfg.Requested(req) {
		req.Key = "inbox " + l.id
	}
	return req
}

// read reads the files of a batch that still exist.
func (r *leaderTerm) read(ctx context.Context, batch []file) (read []letter, all outcome) {
	objects := make([]storage.Object, len(batch))
	errs := make([]error, len(batch))
	var failures atomic.Int32
	var group errgroup.Group
	group.SetLimit(r.bounds.parallel)
	for i, f := range batch {
		group.Go(func() error {
			if failures.Load() >= failuresMax {
				errs[i] = errNotTried
				return nil
			}
			objects[i], errs[i] = r.cfg.Bucket.Get(ctx, f.key())
			if errs[i] != nil && !errors.Is(errs[i], storage.ErrNotFound) {
				failures.Add(1)
			}
			return nil
		})
	}
	_ = group.Wait() // errs has the errors
	for i, f := range batch {
		switch err := errs[i]; {
		case err == nil:
			read = append(read, letter{file: f, data: objects[i].Data})
		case errors.Is(err, storage.ErrNotFound): // removed since the listing
			delete(r.held, f.id)
		case errors.Is(err, errNotTried):
		default:
			all.add(r.failed(f, fmt.Errorf("read %s: %w", f.key(), err)))
		}
	}
	return read, all
}

var errNotTried = errors.New("the file was not tried")

// failed keeps a file for a later round after an error.
func (r *leaderTerm) failed(f file, err error) outcome {
	r.hold(f)
	return outcome{refused: true, failures: []error{err}}
}

// propose proposes the mutations of letters in one log entry. It returns the letters to
// reject, and the result for the others.
func (r *leaderTerm) propose(ctx context.Context, letters []letter) (refused []rejection, all outcome, err error) {
	if len(letters) == 0 {
		return nil, outcome{}, nil
	}
	ms := make([]*fsmpb.Mutation, len(letters))
	for i, l := range letters {
		ms[i] = l.mutation
	}
	results, lsn, err := r.cfg.Propose(ctx, ms)
	if err == nil && len(results) != len(ms) {
		err = fmt.Errorf("got %d results for %d mutations", len(results), len(ms))
	}
	if err != nil {
		return nil, outcome{refused: true}, fmt.Errorf("enqueue %d jobs: %w", len(letters), err)
	}
	for i, l := range letters {
		switch v := r.judge(l.file, results[i]); v {
		case added, repeated:
			r.noteTaken(l, v, results[i], lsn)
			all.done++
		case bad:
			refused = append(refused, rejection{letter: l, reason: reasonOf(results[i].Code)})
		default:
			r.hold(l.file)
			all.refused = true
		}
	}
	return refused, all, nil
}

// judge is like the function judge, but rejects a file that has waited too long for a
// missing job.
func (r *leaderTerm) judge(f file, res fsm.Result) verdict {
	v := judge(res)
	if v == awaits && !r.awaitsStill(f) {
		return bad
	}
	return v
}

// noteTaken records a file whose job is in the machine.
func (r *leaderTerm) noteTaken(l letter, v verdict, res fsm.Result, lsn fsm.LSN) {
	delete(r.held, l.id)
	r.taken[l.id] = lsn
	r.count(func(s *Stats) {
		if v == added {
			s.Taken++
		} else {
			s.Repeated++
		}
	})
	if v == repeated {
		r.cfg.Log.Info("a file in the inbox added no job: the job exists, or another job holds its unique key",
			"id", l.id, "job", holder(res))
	}
}

// holder returns the id of the existing job that makes the file a repetition.
func holder(res fsm.Result) string {
	if len(res.Jobs) > 0 && res.Jobs[0] != nil {
		return res.Jobs[0].ID
	}
	return ""
}
