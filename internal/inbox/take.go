package inbox

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/storage"
)

// letter is a file with its bytes.
type letter struct {
	file
	data []byte
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
	rejects, decided, err := r.enqueue(ctx, read)
	all.add(decided)
	if err != nil {
		return all, err
	}
	all.add(r.rejectAll(ctx, rejects))
	return all, nil
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

// enqueue enqueues the jobs of letters in one log entry. It returns the letters to reject,
// and the result for the others.
func (r *leaderTerm) enqueue(ctx context.Context, letters []letter) (rejects []rejection, all outcome, err error) {
	if len(letters) == 0 {
		return nil, outcome{}, nil
	}
	files := make([]File, len(letters))
	for i, l := range letters {
		files[i] = File{ID: l.id, Data: l.data, Request: requestOf(l)}
	}
	answers, lsn, err := r.queue.Enqueue(ctx, files)
	if err == nil && len(answers) != len(files) {
		err = fmt.Errorf("got %d answers for %d files", len(answers), len(files))
	}
	if err != nil {
		return nil, outcome{refused: true}, fmt.Errorf("enqueue the jobs of %d files: %w", len(files), err)
	}
	for i, l := range letters {
		a := answers[i]
		if a.Defect != nil {
			rejects = append(rejects, rejection{letter: l, reason: a.Defect})
			continue
		}
		switch v := r.judge(l.file, a.Result); v {
		case added, repeated:
			r.noteTaken(l, v, a.Result, lsn)
			all.done++
		case bad:
			rejects = append(rejects, rejection{letter: l, reason: reasonOf(a.Result.Code)})
		default:
			r.hold(l.file)
			all.refused = true
		}
	}
	return rejects, all, nil
}

// requestOf returns the request of the enqueue, which makes it take effect once. The space
// separates the key from the keys of API clients, which only have visible characters.
func requestOf(l letter) *fsmpb.Request {
	sum := sha256.Sum256(l.data)
	return &fsmpb.Request{Key: "inbox " + l.id, Fingerprint: sum[:]}
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

// verdict is the meaning of the machine's answer for a file.
type verdict int

const (
	added    verdict = iota // the job is in the machine
	repeated                // the job or its unique key existed; nothing was added
	later                   // the queue is full: other jobs must leave first
	awaits                  // a job that it depends on is missing, and may still come
	bad                     // it can never be accepted
)

// errUsedID replaces a request conflict in the reason for a producer: the key of the
// request comes from the id, and the producer does not know it.
var errUsedID = errors.New("the id was used before for a file with other content: use a new id")

// reasonOf returns the reason for the rejection of a file that the machine refuses.
func reasonOf(code fsm.Code) error {
	if code == fsm.RequestConflict {
		return errUsedID
	}
	return code.Err()
}

// judge interprets the answer to an enqueue of one job.
func judge(res fsm.Result) verdict {
	switch {
	case res.Code == fsm.Duplicate, res.Code.Done() && slices.Contains(res.Codes, fsm.Duplicate):
		return repeated
	case res.Code.Done():
		return added
	}
	switch res.Code {
	case fsm.TooManyJobs, fsm.TooManyBytes:
		return later
	case fsm.NoSuchJob:
		return awaits
	}
	return bad
}

// settle waits until the jobs that were taken are in the bucket, and removes their files.
// If a removal fails, it marks the file, so that no leader takes it again.
func (r *leaderTerm) settle(ctx context.Context) error {
	if len(r.taken) == 0 {
		return nil
	}
	newest := slices.MaxFunc(slices.Collect(maps.Values(r.taken)), fsm.LSN.Compare)
	if err := r.queue.WaitFlushed(ctx, newest); err != nil {
		return fmt.Errorf("wait until the jobs are in the bucket: %w", err)
	}
	var group errgroup.Group
	group.SetLimit(r.bounds.parallel)
	var mu sync.Mutex
	for id := range r.taken {
		group.Go(func() error {
			err := r.remove(ctx, file{id: id})
			if err == nil {
				return nil
			}
			mu.Lock()
			r.stuck[id] = struct{}{}
			mu.Unlock()
			return errors.Join(err, r.mark(ctx, id))
		})
	}
	clear(r.taken)
	return group.Wait()
}
