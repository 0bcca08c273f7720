package core

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/fsm/artefacts"
	"osqueue/fsm/fsmpb"
	"osqueue/storage"
)

// Objects is the bucket, for the bytes of artefacts.
type Objects interface {
	storage.Streamer
	storage.Signer
}

// PathArtefact is the path of one artefact of a job.
var PathArtefact = ByID(v1.PathJobs) + "/" + v1.ActionArtefacts + "/{name}"

// Times of artefacts.
const (
	ReservedFor = 24 * time.Hour // until a job has it
	SignedFor   = time.Hour      // a signed URL
)

// statPatience bounds a question to the bucket whether it has an object.
const statPatience = 10 * time.Second

// ErrNoArtefacts is the answer of a node without a bucket.
var ErrNoArtefacts = Fail(noBucket, "this node has no bucket for artefacts")

// CheckArtefact checks the name of an artefact.
func CheckArtefact(member, name string) error {
	if strings.Contains(name, "/") {
		return Bad(member, "contains a slash")
	}
	return CheckStep(member, name)
}

// CheckGiven is CheckID for an id that must be there.
func (l *Limits) CheckGiven(member, id string) error {
	if id == "" {
		return Bad(member, "is missing")
	}
	return l.CheckID(member, id)
}

// readArtefacts checks the artefacts of a new job and sorts them.
func (l *Limits) readArtefacts(in []v1.NamedArtefact) ([]*fsmpb.NamedArtefact, error) {
	if len(in) == 0 {
		return nil, nil
	}
	if len(in) > artefacts.PerJob {
		return nil, Bad("artefacts", "has %d items; a job may have at most %d", len(in), artefacts.PerJob)
	}
	out := make([]*fsmpb.NamedArtefact, len(in))
	for i, a := range in {
		member := fmt.Sprintf("artefacts[%d]", i)
		if err := cmp.Or(CheckArtefact(member+".name", a.Name), l.CheckGiven(member+".id", a.ID)); err != nil {
			return nil, err
		}
		out[i] = &fsmpb.NamedArtefact{Name: a.Name, Id: a.ID}
	}
	slices.SortFunc(out, func(a, b *fsmpb.NamedArtefact) int { return strings.Compare(a.Name, b.Name) })
	for i := range out[1:] {
		if out[i].Name == out[i+1].Name {
			return nil, Bad("artefacts", "has the name %q twice", Shown(out[i].Name))
		}
	}
	return out, nil
}

// CheckUploaded refuses new jobs with artefacts whose bytes the bucket does not have.
func (s *Core) CheckUploaded(c *Call, jobs []*fsmpb.NewJob) error {
	for i, j := range jobs {
		for _, a := range j.GetArtefacts() {
			if err := s.Uploaded(c, a.Id); err != nil {
				if len(jobs) == 1 {
					return err
				}
				return Blame(err, i)
			}
		}
	}
	return nil
}

// Uploaded returns nil if the bucket has the bytes of an artefact, or if that is not reserved: the machine says so then.
func (s *Core) Uploaded(c *Call, id string) error {
	a := s.Node.View().Artefact(c.Owned(id))
	if !artefacts.Reserved(a) {
		return nil
	}
	there, err := s.HasObject(c.Ctx, a)
	switch {
	case err != nil:
		return err
	case !there:
		return Fail(noSuchArtefact, "the artefact %q is reserved, but the bucket does not have its bytes; upload them first", Shown(id))
	}
	return nil
}

// HasObject reports whether the bucket has the bytes of an artefact.
func (s *Core) HasObject(ctx context.Context, a *fsm.Artefact) (bool, error) {
	if s.Config.Objects == nil {
		return false, ErrNoArtefacts
	}
	ctx, cancel := context.WithTimeout(ctx, statPatience)
	defer cancel()
	got, err := s.Config.Objects.Stat(ctx, artefacts.Key(a))
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return false, nil
	case err != nil:
		return false, BucketFailed(err)
	}
	return got.Size == a.Size && (got.Sum == nil || *got.Sum == storage.Sum(a.Sum)), nil
}

// ErrArtefactLost answers for an artefact that somebody else has removed from the bucket.
var ErrArtefactLost = Fail(Kind{Status: noBucket.Status, Tag: noBucket.Tag, Title: "The bucket has lost the artefact"},
	"the job has the artefact, but the bucket does not have its bytes; osqueue verify lists all that are missing")

// BucketFailed returns the answer for an error of the bucket.
func BucketFailed(err error) error {
	f := Fail(noBucket, "the bucket did not answer; repeat the request")
	f.Cause = err
	return f
}

// ArtefactsOf returns the artefacts of a job.
func ArtefactsOf(v *fsm.View, job string) []v1.Artefact {
	list := []v1.Artefact{}
	for _, a := range v.ArtefactsOf(job) {
		list = append(list, v1.Artefact{Name: a.Name, Size: a.Size, SHA256: hex.EncodeToString(a.Sum), Sealed: a.Sealed})
	}
	return list
}

// AppendArtefacts appends the artefacts of a job.
func AppendArtefacts(b []byte, v *fsm.View, job string) []byte {
	list := ArtefactsOf(v, job)
	if len(list) == 0 {
		return b
	}
	text, err := Marshal(list)
	if err != nil {
		return b
	}
	return append(Key(b, "artefacts"), text...)
}
