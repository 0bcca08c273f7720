package core

import (
	"bytes"

	v1 "osqueue/client/api/v1"
	"osqueue/fsm/fsmpb"
)

// JobReader returns a function that reads a job as POST /v1/jobs does, by the same rules, from
// a body of another source: a file of the inbox. mayEnqueue reports whether it may make jobs of a type;
// nil allows all. The id is that of the job, whatever the name
// of the file is; a body that names another id is refused. now is the leader's clock, in ms.
// Limits that are not positive take their defaults; that of maxBytes is DefaultBodyBytes.
//
// The function is safe for concurrent use, and does not keep data. Its errors describe a fault
// in the body or the id: reading the job again would not help.
func JobReader(l Limits, maxBytes int64, mayEnqueue func(jobType string) bool, now func() int64) func(id string, data []byte) (*fsmpb.Mutation, error) {
	core := &Core{Config: Config{Limits: l.withDefaults(), MaxBody: Or(maxBytes, DefaultBodyBytes)}}
	core.Reader = jobReader{&core.Config.Limits, now}
	return func(id string, data []byte) (*fsmpb.Mutation, error) { return core.readJob(id, data, mayEnqueue) }
}

func (s *Core) readJob(id string, data []byte, mayEnqueue func(jobType string) bool) (*fsmpb.Mutation, error) {
	if id == "" {
		return nil, Bad("id", "is missing")
	}
	if int64(len(data)) > s.Config.MaxBody {
		return nil, BodyTooLarge(s.Config.MaxBody)
	}
	c := &Call{Core: s, In: bytes.Clone(data)}
	var in v1.NewJob
	if err := c.parse(&in); err != nil {
		return nil, err
	}
	if in.ID != "" && in.ID != id {
		return nil, Bad("id", "is %q; must be %q, the id of the file, or be left out", Shown(in.ID), id)
	}
	if mayEnqueue != nil && !mayEnqueue(in.Type) {
		return nil, Fail(Forbidden, "files of the inbox may not make jobs of type %q; see --inbox-types", Shown(in.Type))
	}
	in.ID = id
	job, err := s.Reader.NewJob(&in)
	if err != nil {
		return nil, err
	}
	return EnqueueOf([]*fsmpb.NewJob{job}), nil
}
