// Package artefacts has the artefacts of the state: files whose bytes are objects in the bucket. DESIGN.md of package fsm,
// section 26, has the rules.
package artefacts

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"osqueue/fsm/btree"
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/tenants"
)

// Artefact is a file: reserved, attached to a job, or released. It is immutable.
type Artefact = fsmpb.Artefact

// The limits of artefacts.
const (
	PerJob  = 16
	NameMax = 100     // bytes
	SizeMax = 5 << 30 // bytes: a store takes no more in one request
	idMax   = 256
)

// Prefix begins the keys of the objects of all artefacts.
const Prefix = "artefact/"

// Key returns the key of the object that has the bytes of an artefact.
func Key(a *Artefact) string {
	_, id, owned := strings.Cut(a.Id, tenants.End)
	if !owned {
		id = a.Id
	}
	return Prefix + id
}

// Reserved reports whether an artefact waits for its bytes and its job.
func Reserved(a *Artefact) bool { return a != nil && a.JobId == "" && a.ReleasedMs == 0 }

// ValidName reports whether a job may have an artefact of that name.
func ValidName(name string) bool {
	return name != "" && len(name) <= NameMax && utf8.ValidString(name) && !strings.ContainsAny(name, "/\x00")
}

// ErrValue is the error for a mutation or record that no state has.
var ErrValue = errors.New("an artefact has an invalid id, name, size, sum or time, or a job has too many or unsorted ones")

// CheckNamed refuses the artefacts that no new job can have.
func CheckNamed(list []*fsmpb.NamedArtefact) error {
	for i, n := range list {
		if !ValidName(n.GetName()) || n.GetId() == "" || i > 0 && list[i-1].Name >= n.Name {
			return ErrValue
		}
	}
	if len(list) > PerJob {
		return ErrValue
	}
	return nil
}

// CheckReserve refuses reservations that no state can have.
func CheckReserve(op *fsmpb.ReserveArtefact) error {
	return check(&Artefact{Id: op.GetId(), Size: op.GetSize(), Sum: op.GetSum(), UntilMs: op.GetUntilMs()})
}

func check(a *Artefact) error {
	known := a.Id != "" && len(a.Id) <= idMax && utf8.ValidString(a.Id) && a.Size >= 0 && a.Size <= SizeMax && len(a.Sum) == sha256.Size &&
		min(a.UntilMs, a.CreatedMs, a.ReleasedMs) >= 0 && (a.JobId == "") == (a.Name == "") && (a.Name == "" || ValidName(a.Name))
	if !known {
		return ErrValue
	}
	return nil
}

// Frozen has the artefacts. A copy does not change.
type Frozen struct {
	all      *btree.Tree[*Artefact] // by id
	attached *btree.Tree[*Artefact] // by job, then name
	released *btree.Tree[*Artefact] // by time, then id
}

// Freeze returns a copy, in O(1).
func (s *Frozen) Freeze() Frozen { return Frozen{s.all.Copy(), s.attached.Copy(), s.released.Copy()} }

// Artefact returns the artefact with that id, or nil.
func (s *Frozen) Artefact(id string) *Artefact { return s.all.Find(&Artefact{Id: id}) }

// AllArtefacts calls fn for the artefacts, in the order of ids, until fn returns false.
func (s *Frozen) AllArtefacts(fn func(*Artefact) bool) { s.all.Scan(fn) }

// ArtefactCount returns the number of artefacts.
func (s *Frozen) ArtefactCount() int { return s.all.Len() }

// ArtefactsOf returns the artefacts of a job, in the order of names.
func (s *Frozen) ArtefactsOf(job string) (list []*Artefact) {
	s.attached.Ascend(&Artefact{JobId: job}, func(a *Artefact) bool {
		if a.JobId == job {
			list = append(list, a)
		}
		return a.JobId == job
	})
	return list
}

// ArtefactOf returns the artefact of a job with a name, or nil.
func (s *Frozen) ArtefactOf(job, name string) *Artefact {
	return s.attached.Find(&Artefact{JobId: job, Name: name})
}

// ReleasedArtefacts calls fn for the released artefacts, the first one that was released first, until fn returns false.
func (s *Frozen) ReleasedArtefacts(fn func(*Artefact) bool) { s.released.Scan(fn) }

// Table is a Frozen that changes.
type Table struct {
	Frozen
	ends    *btree.Tree[*Artefact]   // those that are reserved, by the end of the reservation, then id
	changed func(now, old *Artefact) // called for each change; nil stands for none
}

// New returns a table without artefacts, which calls changed for each change.
func New(changed func(now, old *Artefact)) Table {
	id := func(a, b *Artefact) int { return strings.Compare(a.Id, b.Id) }
	return Table{
		Frozen: Frozen{
			all: btree.New(func(a, b *Artefact) bool { return a.Id < b.Id }),
			attached: btree.New(func(a, b *Artefact) bool {
				return cmp.Or(strings.Compare(a.JobId, b.JobId), strings.Compare(a.Name, b.Name)) < 0
			}),
			released: btree.New(func(a, b *Artefact) bool { return cmp.Or(cmp.Compare(a.ReleasedMs, b.ReleasedMs), id(a, b)) < 0 }),
		},
		ends:    btree.New(func(a, b *Artefact) bool { return cmp.Or(cmp.Compare(a.UntilMs, b.UntilMs), id(a, b)) < 0 }),
		changed: changed,
	}
}

// set stores now in place of old; nil stands for none.
func (t *Table) set(now, old *Artefact) {
	if old != nil {
		t.all.Delete(old)
		t.placeOf(old).Delete(old)
	}
	if now != nil {
		t.all.Set(now)
		t.placeOf(now).Set(now)
	}
	t.changed(now, old)
}

// placeOf returns the index for the status of an artefact.
func (t *Table) placeOf(a *Artefact) *btree.Tree[*Artefact] {
	switch {
	case a.ReleasedMs != 0:
		return t.released
	case a.JobId != "":
		return t.attached
	}
	return t.ends
}

// Reservation returns the artefact that a reservation makes.
func Reservation(op *fsmpb.ReserveArtefact, now int64) *Artefact {
	return &Artefact{
		Id: strings.Clone(op.Id), Size: op.Size, Sum: slices.Clone(op.Sum), Sealed: op.Sealed, Account: strings.Clone(op.GetQuota().GetAccount()),
		CreatedMs: now, UntilMs: op.UntilMs,
	}
}

// Reserve adds a reservation, whose id is not in use.
func (t *Table) Reserve(a *Artefact) { t.set(a, nil) }

// Attach makes a reserved artefact one of a job. The one that has the name is released.
func (t *Table) Attach(id, job, name string, now int64) {
	if old := t.ArtefactOf(job, name); old != nil {
		t.release(old, now)
	}
	old := t.Artefact(id)
	a := fsmpb.Copy(old)
	a.JobId, a.Name = strings.Clone(job), strings.Clone(name)
	t.set(a, old)
}

func (t *Table) release(old *Artefact, now int64) {
	a := fsmpb.Copy(old)
	a.ReleasedMs = max(now, 1)
	t.set(a, old)
}

// Free reports whether all artefacts of a new job are reserved, and none is among those that are taken, to which it adds them.
func (t *Table) Free(list []*fsmpb.NamedArtefact, taken *map[string]bool) bool {
	for _, one := range list {
		if (*taken)[one.Id] || !Reserved(t.Artefact(one.Id)) {
			return false
		}
		if *taken == nil {
			*taken = make(map[string]bool)
		}
		(*taken)[one.Id] = true
	}
	return true
}

// Replace makes artefacts those of a job, in place of the ones that it has.
func (t *Table) Replace(job string, list []*fsmpb.NamedArtefact, now int64) {
	t.ReleaseOf(job, now)
	for _, one := range list {
		t.Attach(one.Id, job, one.Name, now)
	}
}

// Outcome says what Give did.
type Outcome uint8

// The outcomes of Give, for each of which package fsm has a code in this order.
const (
	Given   Outcome = iota
	Had             // the job has it already
	Missing         // it is not reserved
	Full            // the job has PerJob others
)

// Give attaches an artefact to a job that runs.
func (t *Table) Give(job string, one *fsmpb.NamedArtefact, now int64) Outcome {
	a, held := t.Artefact(one.Id), t.ArtefactOf(job, one.Name)
	switch {
	case a != nil && a == held:
		return Had
	case !Reserved(a):
		return Missing
	case held == nil && len(t.ArtefactsOf(job)) >= PerJob:
		return Full
	}
	t.Attach(one.Id, job, one.Name, now)
	return Given
}

// ReleaseOf releases the artefacts of a job.
func (t *Table) ReleaseOf(job string, now int64) {
	if t.attached.Len() == 0 {
		return
	}
	for _, a := range t.ArtefactsOf(job) {
		t.release(a, now)
	}
}

// Expire releases the reservations that have ended.
func (t *Table) Expire(now int64) {
	for a, ok := t.ends.Min(); ok && a.UntilMs <= now; a, ok = t.ends.Min() {
		t.release(a, now)
	}
}

// NextEnd returns the time at which the next reservation ends; ok is false if there is none.
func (t *Table) NextEnd() (at int64, ok bool) {
	a, ok := t.ends.Min()
	return a.GetUntilMs(), ok
}

// Drop removes those of the artefacts that are released. It returns their number.
func (t *Table) Drop(ids []string) (dropped uint64) {
	for _, id := range ids {
		if a := t.Artefact(id); a.GetReleasedMs() != 0 {
			t.set(nil, a)
			dropped++
		}
	}
	return dropped
}

// Add adds an artefact of a stored state. there reports whether the state has its job.
func (t *Table) Add(a *Artefact, there bool) error {
	err := check(a)
	if a.ReleasedMs == 0 && a.JobId != "" && !there {
		err = errors.New("its job does not exist")
	}
	if t.Artefact(a.Id) != nil || a.ReleasedMs == 0 && a.JobId != "" && t.ArtefactOf(a.JobId, a.Name) != nil {
		err = errors.New("it occurs twice")
	}
	if err != nil {
		return fmt.Errorf("artefact %q: %w", a.Id, err)
	}
	t.set(a, nil)
	return nil
}
