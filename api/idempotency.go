package api

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"strconv"

	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// A write with an idempotency key takes effect once. The machine remembers the answer. This
// file gives the request its name and fingerprint, and turns the answer to a repetition into
// the first answer. propose, which every write uses, does all of this, so that no handler can
// forget it.

// keyMax is the longest idempotency key, in bytes.
const keyMax = 256

// Headers under the names that net/http gives them, for direct access.
const (
	headerKey      = v1.HeaderIdempotencyKey
	headerReplayed = v1.HeaderReplayed
)

// readKey reads the idempotency key of a write.
func (c *call) readKey() error {
	given := c.keys
	switch {
	case len(given) == 0:
		return nil
	case len(given) > 1:
		return fail(badRequest, "the header %s occurs %d times; send one key", headerKey, len(given))
	case given[0] == "":
		return fail(badRequest, "the header %s is empty; send 1 to %d visible ASCII characters", headerKey, keyMax)
	case len(given[0]) > keyMax:
		return fail(badRequest, "the header %s is longer than %d characters", headerKey, keyMax)
	}
	for _, r := range given[0] {
		if r <= ' ' || r >= 0x7f {
			return fail(badRequest, "the header %s contains %q; use visible ASCII characters only", headerKey, r)
		}
	}
	c.key = given[0]
	return nil
}

// propose commits the mutation of a request. A request has exactly one, apart from the next
// claim of a report. It sets the LSN in the answer, whatever the machine decides.
func (s *Core) propose(c *call, m *fsmpb.Mutation) (fsm.Result, error) {
	return s.proposeOnly(c, []*fsmpb.Mutation{m})
}

// proposeOnly is propose for the only mutation of a list.
func (s *Core) proposeOnly(c *call, only []*fsmpb.Mutation) (fsm.Result, error) {
	res, lsn, err := s.gate.propose(c, only...)
	if err != nil {
		return fsm.Result{}, err
	}
	return s.committed(c, only[0], res[0], lsn)
}

// committed prepares the answer to a mutation that was committed.
func (s *Core) committed(c *call, m *fsmpb.Mutation, res fsm.Result, lsn fsm.LSN) (fsm.Result, error) {
	c.lsn = lsn
	s.trace(c, m, res, lsn)
	switch {
	case res.Code == fsm.RequestConflict:
		return fsm.Result{}, res.Code.Err()
	case !res.LSN.IsZero():
		s.replay(c, m, &res)
	default:
		s.metrics.duplicate(res.Codes)
	}
	return res, nil
}

// request names the write for the machine; it returns nil if the caller gave it no name. The
// fingerprint covers the body, without ciphertexts, and the route, so that a key that is used
// for another request is detected. The requested durability does not count: a caller whose wait was too long may
// repeat the request with another level.
func (c *call) request() (*fsmpb.Request, error) {
	if c.key == "" {
		return nil, nil
	}
	if err := c.readBody(); err != nil { // of a handler that does not need it
		return nil, err
	}
	h := sha256.New()
	part(h, []byte(c.method))
	part(h, []byte(c.path))
	part(h, []byte(withoutAck(c.rawQuery)))
	partUnsealed(h, withoutHeaders(c.in))
	if c.principal != nil { // another owner's key is another request
		part(h, strconv.AppendUint(nil, c.principal.Owner, 10))
	}
	return &fsmpb.Request{Key: c.key, Fingerprint: h.Sum(nil)}, nil
}

// part adds a part to a hash, with its length, so that parts cannot be confused.
func part(h hash.Hash, b []byte) {
	var size [8]byte
	binary.BigEndian.PutUint64(size[:], uint64(len(b)))
	_, _ = h.Write(size[:]) // a hash takes everything
	_, _ = h.Write(b)
}

// replay turns the machine's answer to a repeated request into the first answer. A
// header marks it as a duplicate, because the body is the same.
func (s *Core) replay(c *call, m *fsmpb.Mutation, res *fsm.Result) {
	c.lsn, c.replayed = res.LSN, true
	s.metrics.replays.Inc()
	res.Code = codeOf(m, res)
	if m.GetHeartbeat() != nil {
		s.recallCancels(res.Jobs)
	}
}

// codeOf returns the code of the first answer. A mutation of several items has one code for
// each item, and is successful as a whole.
func codeOf(m *fsmpb.Mutation, res *fsm.Result) fsm.Code {
	several := m.GetEnqueue() != nil || m.GetChange() != nil || m.GetHeartbeat() != nil || m.GetGroup() != nil
	if several || len(res.Codes) != 1 {
		return fsm.OK
	}
	return res.Codes[0]
}

// recallCancels adds pending cancellations to the repeated answer of a heartbeat; the remembered
// answer lacks them.
func (s *Core) recallCancels(jobs []*fsm.Job) {
	for i, j := range jobs {
		if j == nil {
			continue
		}
		now := s.b.Job(j.ID)
		if now == nil || now.Execution().Token != j.Execution().Token || now.Details().CancelAt == 0 {
			continue
		}
		one := *j
		one.Det = now.Det
		jobs[i] = &one
	}
}
