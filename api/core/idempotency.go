package core

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"hash"
	"strconv"

	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// A write with an idempotency key takes effect once. The machine remembers the answer. This
// file gives the request its name and fingerprint, and turns the answer to a repetition into
// the first answer. Propose, which every write uses, does all of this, so that no handler can
// forget it.

// KeyMax is the longest idempotency key, in bytes.
const KeyMax = 256

// readKey reads the idempotency key of a write.
func (c *Call) readKey() error {
	given := c.Keys
	switch {
	case len(given) == 0:
		return nil
	case len(given) > 1:
		return Fail(BadRequest, "the header %s occurs %d times; send one key", v1.HeaderIdempotencyKey, len(given))
	case given[0] == "":
		return Fail(BadRequest, "the header %s is empty; send 1 to %d visible ASCII characters", v1.HeaderIdempotencyKey, KeyMax)
	case len(given[0]) > KeyMax:
		return Fail(BadRequest, "the header %s is longer than %d characters", v1.HeaderIdempotencyKey, KeyMax)
	}
	for _, r := range given[0] {
		if r <= ' ' || r >= 0x7f {
			return Fail(BadRequest, "the header %s contains %q; use visible ASCII characters only", v1.HeaderIdempotencyKey, r)
		}
	}
	c.Key = given[0]
	return nil
}

// Propose commits the mutation of a request. A request has exactly one, apart from the next
// claim of a report. It sets the LSN in the answer, whatever the machine decides.
func (s *Core) Propose(c *Call, m *fsmpb.Mutation) (fsm.Result, error) {
	return s.ProposeOnly(c, []*fsmpb.Mutation{m})
}

// ProposeOnly is Propose for the only mutation of a list.
func (s *Core) ProposeOnly(c *Call, only []*fsmpb.Mutation) (fsm.Result, error) {
	res, lsn, err := s.Gate.Propose(c, only...)
	if err != nil {
		return fsm.Result{}, err
	}
	return s.Committed(c, only[0], res[0], lsn)
}

// Commit is Propose for a mutation that is refused as a whole. notFound is the refusal if its object does not exist.
func (s *Core) Commit(c *Call, m *fsmpb.Mutation, notFound error) (fsm.Result, error) {
	res, err := s.Propose(c, m)
	switch {
	case err != nil:
		return res, err
	case res.Code == fsm.NotFound && notFound != nil:
		return res, notFound
	}
	return res, res.Code.Err()
}

// CommitDone is Commit for a call that is answered with a v1.Done.
func (s *Core) CommitDone(c *Call, m *fsmpb.Mutation, notFound error) error {
	if _, err := s.Commit(c, m, notFound); err != nil {
		return err
	}
	return c.SendDone()
}

// Committed prepares the answer to a mutation that was committed.
func (s *Core) Committed(c *Call, m *fsmpb.Mutation, res fsm.Result, lsn fsm.LSN) (fsm.Result, error) {
	c.Lsn = lsn
	s.Trace(c, m, res, lsn)
	switch {
	case res.Code == fsm.RequestConflict:
		return fsm.Result{}, res.Code.Err()
	case !res.LSN.IsZero():
		s.replay(c, m, &res)
	default:
		s.Metrics.duplicate(res.Codes)
	}
	return res, nil
}

// request names the write for the machine; it returns nil if the caller gave it no name. The
// fingerprint covers the route and the body without ciphertexts, so that a key that is used for another request is
// detected. Of a v1.Message it covers the values, in any encoding. The requested durability does not count: a caller whose wait was too long may
// repeat the request with another level.
func (c *Call) request() (*fsmpb.Request, error) {
	if c.Key == "" {
		return nil, nil
	}
	if err := c.ReadBody(); err != nil { // of a handler that does not need it
		return nil, err
	}
	h := sha256.New()
	Part(h, []byte(c.Method))
	Part(h, []byte(c.Path))
	Part(h, []byte(withoutAck(c.RawQuery)))
	body := c.In
	if c.same != nil { // the repetition may be in another encoding
		body = c.same
	}
	partUnsealed(h, withoutHeaders(body))
	if c.Principal != nil { // another owner's key is another request
		Part(h, strconv.AppendUint(nil, c.Principal.Owner, 10))
	}
	return &fsmpb.Request{Key: c.Key, Fingerprint: h.Sum(nil)}, nil
}

// Part adds a part to a hash, with its length, so that parts cannot be confused.
func Part(h hash.Hash, b []byte) {
	var size [8]byte
	binary.BigEndian.PutUint64(size[:], uint64(len(b)))
	_, _ = h.Write(size[:]) // a hash takes everything
	_, _ = h.Write(b)
}

// replay turns the machine's answer to a repeated request into the first answer. A
// header marks it as a duplicate, because the body is the same.
func (s *Core) replay(c *Call, m *fsmpb.Mutation, res *fsm.Result) {
	c.Lsn, c.Replayed = res.LSN, true
	s.Metrics.replays.Inc()
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
		now := s.Node.Job(j.ID)
		if now == nil || now.Execution().Token != j.Execution().Token || now.Details().CancelAt == 0 {
			continue
		}
		one := *j
		one.Det = now.Det
		jobs[i] = &one
	}
}

// withoutHeaders returns a body without the headers of its jobs, for the fingerprint of an
// idempotency key: a caller that repeats a write has another trace. A body without headers is
// returned as it is.
func withoutHeaders(body []byte) []byte {
	const member = "headers"
	if !bytes.Contains(body, strconv.AppendQuote(nil, member)) {
		return body
	}
	var root map[string]any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if d.Decode(&root) != nil {
		return body // the handler refuses it
	}
	strip := func(job any) {
		if job, ok := job.(map[string]any); ok {
			delete(job, member)
		}
	}
	strip(root)
	strip(root["job"])
	strip(root["callback"])
	if jobs, ok := root["jobs"].([]any); ok {
		for _, job := range jobs {
			strip(job)
		}
	}
	out, err := json.Marshal(root)
	if err != nil {
		return body
	}
	return out
}

// sealedMark is in every ciphertext of a body as the SDK writes it (docs/encryption.md). In
// a JSON string the quote would be escaped, so no plaintext contains it.
var sealedMark = []byte(`"osqueue.sealed`)

// sealedHeads follow the mark, up to the ciphertext, which ends with a quote.
var sealedHeads = [][]byte{
	[]byte(`":1,"to":"job","data":"`),
	[]byte(`":1,"to":"cron","data":"`),
	[]byte(`:1:`),
}

// partUnsealed is part without the ciphertexts in b. Encryption never gives the same bytes
// twice, and a repeated request is still the same request: the ids, types and all other
// fields of its jobs count.
func partUnsealed(h hash.Hash, b []byte) {
	at := bytes.Index(b, sealedMark)
	if at < 0 {
		Part(h, b)
		return
	}
	kept := make([]byte, 0, len(b))
	for at >= 0 {
		at += len(sealedMark)
		kept = append(kept, b[:at]...)
		b = b[at:]
		for _, head := range sealedHeads {
			rest, ok := bytes.CutPrefix(b, head)
			if end := bytes.IndexByte(rest, '"'); ok && end >= 0 {
				kept = append(kept, head...)
				b = rest[end:]
				break
			}
		}
		at = bytes.Index(b, sealedMark)
	}
	Part(h, append(kept, b...))
}
