package client

import (
	"context"
	"errors"
	"iter"
	"net/url"
	"strconv"
	"strings"
	"time"

	v1 "osqueue/client/api/v1"
	"osqueue/client/internal/envelope"
	"osqueue/client/internal/sleep"
)

// followGap is the least time between two requests of FollowLogs.
const followGap = 100 * time.Millisecond

// FollowLogs iterates over what the attempts of a job write while they run, also over
// attempts that begin later. The sequence ends when the job has ended, or with an error.
//
// A chunk has no particular boundaries: it may end within a line. No byte comes twice. If
// the job writes faster than its worker sends or this loop reads, the oldest bytes are
// lost, and v1.LogChunk.Lost is their number; so it is with bytes that were written long
// before the call. Values that Config.Cipher cannot decrypt stay encrypted: see
// IsSealedText.
func (c *Client) FollowLogs(ctx context.Context, id string) iter.Seq2[v1.LogChunk, error] {
	return func(yield func(v1.LogChunk, error) bool) {
		f := follower{c: c, id: id}
		for {
			began := time.Now()
			out, err := f.poll(ctx)
			if err != nil {
				yield(v1.LogChunk{}, err)
				return
			}
			for _, chunk := range out.Chunks {
				fresh, err := f.open(ctx, &chunk)
				if err != nil {
					yield(v1.LogChunk{}, odd(followOp, err))
					return
				}
				if fresh && !yield(chunk, nil) {
					return
				}
			}
			if Finished(out.Status) {
				return
			}
			sleep.For(ctx, followGap-time.Since(began))
		}
	}
}

const followOp = "follow logs"

// follower is one loop over the log of a job.
type follower struct {
	c      *Client
	id     string
	token  uint64 // the position after the last chunk
	offset int64
}

// poll asks for what follows the position.
func (f *follower) poll(ctx context.Context) (v1.JobLogs, error) {
	wait := pollFor(ctx)
	query := url.Values{
		v1.ParamToken: {strconv.FormatUint(f.token, 10)}, v1.ParamOffset: {strconv.FormatInt(f.offset, 10)},
		v1.ParamWaitMs: {strconv.FormatInt(inMilliseconds(wait), 10)},
	}
	k := call{op: followOp, prefix: v1.PathJobs, name: f.id, action: v1.ActionLogs, query: query, wait: wait}
	return send[v1.JobLogs](ctx, f.c.caller, k)
}

// logBytesMax is far above every offset in a log; it keeps sums within an int64.
const logBytesMax = 1 << 61

var errLogChunk = errors.New("the log has a chunk with an impossible offset or length")

// open decrypts a chunk, removes what an earlier chunk had, and moves the position. fresh is false
// if nothing is left.
func (f *follower) open(ctx context.Context, chunk *v1.LogChunk) (fresh bool, err error) {
	if min(chunk.Offset, chunk.Bytes) < 0 || max(chunk.Offset, chunk.Bytes) > logBytesMax {
		return false, errLogChunk
	}
	switch {
	case chunk.Token < f.token: // an earlier attempt, after which a later one was read
		return false, nil
	case chunk.Token > f.token:
		f.token, f.offset = chunk.Token, 0
	}
	had := f.offset - chunk.Offset
	end := chunk.Offset + chunk.Bytes
	if end <= f.offset {
		return false, nil
	}
	f.offset, chunk.Lost = end, max(-had, 0)
	f.c.openChunk(ctx, f.id, chunk)
	switch {
	case had <= 0:
	case had > int64(len(chunk.Text)) || IsSealedText(chunk.Text):
		return false, nil // it cannot be cut
	default:
		chunk.Text = strings.ToValidUTF8(chunk.Text[had:], "\uFFFD")
		chunk.Offset, chunk.Bytes = chunk.Offset+had, chunk.Bytes-had
	}
	return true, nil
}

// openChunk decrypts the text of a chunk if that is possible.
func (c *caller) openChunk(ctx context.Context, id string, chunk *v1.LogChunk) {
	if c.cfg.Cipher == nil || !envelope.IsText(chunk.Text) {
		return
	}
	sealed, err := envelope.ParseText(chunk.Text)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.AttemptTimeout)
	defer cancel()
	if plain, err := c.cfg.Cipher.DecryptWithContext(ctx, sealed, chunkBinding(id, chunk.Token, chunk.Offset)); err == nil {
		chunk.Text = string(plain)
	}
}

// chunkBinding returns the associated data of a chunk, so that it cannot be moved within the
// log.
func chunkBinding(id string, token uint64, offset int64) []byte {
	return envelope.Bind(envelope.KindLive, id, strconv.FormatUint(token, 10), strconv.FormatInt(offset, 10))
}

// MaxLogChunk is the largest text of a LogPart, in bytes.
const MaxLogChunk = 16 << 10

// LogPart is a part of what a running attempt has written.
type LogPart struct {
	Lease  Lease
	Offset int64  // of its first byte, in what the attempt has written
	Text   string // UTF-8, at most MaxLogChunk bytes
}

// WantedLog is a running attempt whose log a reader follows. The cluster has what was written before Offset.
type WantedLog = v1.LogWanted

// SendLogs passes what the running attempts of a worker write to the readers of its jobs. It
// returns the running jobs of the worker that a reader follows; parts of other jobs are
// dropped. Without parts it waits up to wait until there is such a job. Repeated, it
// changes nothing. Package worker calls it.
func (c *Client) SendLogs(ctx context.Context, worker string, parts []LogPart, wait time.Duration) ([]WantedLog, error) {
	const op = "send logs"
	sent, err := inWire(parts, func(p LogPart) (v1.SentLog, error) {
		text, err := c.sealChunk(ctx, p)
		return v1.SentLog{JobID: p.Lease.JobID, Token: p.Lease.Token, Offset: p.Offset, Bytes: int64(len(p.Text)), Text: text}, err
	})
	if err != nil {
		return nil, unsent(op, err)
	}
	in := v1.SendLogs{WorkerID: worker, WaitMs: inMilliseconds(wait), Jobs: sent}
	out, err := send[v1.LogsWanted](ctx, c.caller, call{
		op: op, path: v1.PathLogs, in: in, write: true, passing: true, wait: min(max(wait, 0), endless),
	})
	return out.Jobs, err
}

// sealChunk returns the text of a part, encrypted if the client has a cipher.
func (c *caller) sealChunk(ctx context.Context, p LogPart) (string, error) {
	if c.cfg.Cipher == nil {
		return p.Text, nil
	}
	sealed, err := c.cfg.Cipher.EncryptWithContext(ctx, []byte(p.Text), chunkBinding(p.Lease.JobID, p.Lease.Token, p.Offset))
	if err != nil {
		return "", &sealingError{what: envelope.KindLive, err: err}
	}
	return envelope.Text(sealed), nil
}
