package jobs

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// sendSignal is POST /v1/jobs/{id}/signals/{name}.
func (s *jobs) sendSignal(c *core.Call) error {
	in := new(v1.NewSignal)
	if err := c.DecodeOptional(in); err != nil {
		return err
	}
	err := cmp.Or(core.CheckStep("name", c.Part), core.CheckStepValue(in.Value), s.Config.Limits.CheckID("id", in.ID))
	if err != nil {
		return err
	}
	return s.signal(c, &fsmpb.SendSignal{JobId: c.Name, Name: c.Part, Value: in.Value, Id: in.ID})
}

func (s *jobs) signal(c *core.Call, op *fsmpb.SendSignal) error {
	res, err := s.Propose(c, &fsmpb.Mutation{Op: &fsmpb.Mutation_SendSignal{SendSignal: op}})
	if err != nil {
		return err
	}
	if err := res.Code.Err(); err != nil {
		return wrongStatus(err, res.Jobs)
	}
	return sendChanged(c, res.Jobs[0], res.Code, false, 0)
}

// linkFor is how long a link is valid, in ms, unless the request says otherwise.
const linkFor = 7 * 24 * 3_600_000

// makeLink is POST /v1/jobs/{id}/links.
func (s *jobs) makeLink(c *core.Call, in *v1.NewLink) error {
	if c.Key != "" {
		return core.Fail(core.BadRequest, "leave out the idempotency key: only the first answer has the link")
	}
	valid := cmp.Or(in.ForMs, linkFor)
	if err := cmp.Or(core.CheckStep("signal", in.Signal), core.CheckMs("forMs", valid, s.Config.Limits.Delay)); err != nil {
		return err
	}
	secret := make([]byte, 16)
	if _, err := rand.Read(secret); err != nil {
		return err
	}
	hash := sha256.Sum256(secret)
	op := &fsmpb.MakeLink{JobId: c.Name, Signal: in.Signal, Hash: hash[:], UntilMs: s.Node.Now() + valid}
	res, err := s.Propose(c, &fsmpb.Mutation{Op: &fsmpb.Mutation_MakeLink{MakeLink: op}})
	if err != nil {
		return err
	}
	if err := res.Code.Err(); err != nil {
		return wrongStatus(err, res.Jobs)
	}
	encode := base64.RawURLEncoding.EncodeToString
	return c.SendJSON(v1.Link{Path: v1.PathLinks + "/" + encode([]byte(c.Name)) + "." + encode(secret), Until: op.UntilMs, LSN: c.LsnText()})
}

// followLink is POST /links/{name}: whoever has the link sends the signal.
func (s *jobs) followLink(c *core.Call) error {
	id, hash, err := readLink(c.Name)
	if err != nil {
		return err
	}
	c.Name = id // the audit log must not have the secret
	op := &fsmpb.SendSignal{JobId: id, Link: hash, Id: base64.RawURLEncoding.EncodeToString(hash)}
	if op.Name = signalOf(c.State().Job(id), hash, s.Node.Now()); op.Name == "" {
		return errNoLink
	}
	res, err := s.Propose(c, &fsmpb.Mutation{Op: &fsmpb.Mutation_SendSignal{SendSignal: op}})
	switch {
	case err != nil:
		return err
	case res.Code == fsm.NotFound:
		return errNoLink
	case !res.Code.Done():
		return res.Code.Err()
	}
	return c.SendDone()
}

var errNoLink = core.NotThere("link", "the link does not exist any more: its time is over, or its job is gone")

// Jobs finds jobs.
type Jobs interface{ Job(id string) *fsm.Job }

// Link returns the job and the signal of the end of the path of a link.
func Link(of Jobs, now int64, name string) (job, signal string, err error) {
	id, hash, err := readLink(name)
	if err != nil {
		return "", "", err
	}
	if signal = signalOf(of.Job(id), hash, now); signal == "" {
		return "", "", errNoLink
	}
	return id, signal, nil
}

// signalOf returns the signal of a link of a job, also of one that was used: the signal has its hash as its id then.
func signalOf(j *fsm.Job, hash []byte, now int64) string {
	if j == nil {
		return ""
	}
	for _, l := range j.Details().Links {
		if string(l.Hash) == string(hash) && l.UntilMs > now {
			return l.Signal
		}
	}
	used := base64.RawURLEncoding.EncodeToString(hash)
	return j.Details().Signal(func(s *fsmpb.Signal) bool { return s.Id == used }).GetName()
}

// readLink reads the end of the path of a link: the id of the job, and the hash of the secret.
func readLink(name string) (id string, hash []byte, err error) {
	job, secret, _ := strings.Cut(name, ".")
	rawID, err := base64.RawURLEncoding.DecodeString(job)
	raw, err2 := base64.RawURLEncoding.DecodeString(secret)
	if err != nil || err2 != nil || len(raw) != 16 || len(rawID) == 0 {
		return "", nil, errNoLink
	}
	sum := sha256.Sum256(raw)
	return string(rawID), sum[:], nil
}
