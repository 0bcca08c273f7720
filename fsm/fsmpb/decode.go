package fsmpb

import "google.golang.org/protobuf/encoding/protowire"

// Most entries consist of enqueues. The generated decoder allocates every message by itself, five for a job;
// Decode allocates all messages of the enqueues of an entry together. It leaves the fields of
// messages, and everything that is not an enqueue of plain jobs, to the generated code.

// The numbers of fields in entry.proto.
const (
	fieldMutations = 3 // of Batch
	fieldEnqueue   = 1 // of Mutation
	fieldJobs      = 1 // of Enqueue
)

// enqueued is a mutation that enqueues jobs, with its parts.
type enqueued struct {
	op      Mutation_Enqueue
	enqueue Enqueue
}

// Decode reads a log entry like the generated UnmarshalVTUnsafe.
func (b *Batch) Decode(data []byte) error {
	mutations, enqueues, jobs := countParts(data)
	if enqueues == 0 {
		return b.UnmarshalVTUnsafe(data)
	}
	s := slabs{
		mutations: make([]Mutation, mutations),
		enqueues:  make([]enqueued, enqueues),
		jobs:      make([]NewJob, jobs),
		lists:     make([]*NewJob, jobs),
	}
	b.Mutations = make([]*Mutation, 0, mutations)
	var rest [64]byte // the fields of the entry itself
	head := rest[:0]
	for len(data) > 0 {
		num, kind, n := protowire.ConsumeTag(data)
		size := protowire.ConsumeFieldValue(num, kind, data[n:])
		if num != fieldMutations || kind != protowire.BytesType {
			head = append(head, data[:n+size]...)
			data = data[n+size:]
			continue
		}
		part, _ := protowire.ConsumeBytes(data[n:])
		m := &s.mutations[0]
		s.mutations = s.mutations[1:]
		if err := s.decode(part, m); err != nil {
			return err
		}
		b.Mutations = append(b.Mutations, m)
		data = data[n+size:]
	}
	return b.UnmarshalVTUnsafe(head)
}

// countParts returns how many mutations an entry has, how many of them are enqueues of plain jobs, and how
// many jobs these add. It returns zeros if data is malformed.
func countParts(data []byte) (mutations, enqueues, jobs int) {
	for len(data) > 0 {
		num, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return 0, 0, 0
		}
		size := protowire.ConsumeFieldValue(num, kind, data[n:])
		if size < 0 {
			return 0, 0, 0
		}
		if num == fieldMutations && kind == protowire.BytesType {
			mutations++
			part, _ := protowire.ConsumeBytes(data[n:])
			if k := countJobs(jobsOf(part)); k > 0 {
				enqueues++
				jobs += k
			}
		}
		data = data[n+size:]
	}
	return mutations, enqueues, jobs
}

// jobsOf returns the jobs of a mutation that is an enqueue and has no other field, or nil.
func jobsOf(mutation []byte) []byte {
	num, kind, n := protowire.ConsumeTag(mutation)
	if n < 0 || num != fieldEnqueue || kind != protowire.BytesType {
		return nil
	}
	jobs, size := protowire.ConsumeBytes(mutation[n:])
	if size < 0 || n+size != len(mutation) {
		return nil
	}
	return jobs
}

// countJobs returns the number of jobs of an enqueue, or 0 if it has anything else.
func countJobs(enqueue []byte) (jobs int) {
	for len(enqueue) > 0 {
		num, kind, n := protowire.ConsumeTag(enqueue)
		if n < 0 || num != fieldJobs || kind != protowire.BytesType {
			return 0
		}
		_, size := protowire.ConsumeBytes(enqueue[n:])
		if size < 0 {
			return 0
		}
		jobs++
		enqueue = enqueue[n+size:]
	}
	return jobs
}

// slabs are the messages of an entry that are not in use yet.
type slabs struct {
	mutations []Mutation
	enqueues  []enqueued
	jobs      []NewJob
	lists     []*NewJob
}

// decode reads one mutation.
func (s *slabs) decode(data []byte, m *Mutation) error {
	jobs := jobsOf(data)
	k := countJobs(jobs)
	if k == 0 {
		return m.UnmarshalVTUnsafe(data)
	}
	e, list := &s.enqueues[0], s.lists[:k:k]
	s.enqueues, s.lists = s.enqueues[1:], s.lists[k:]
	for i := range list {
		_, _, n := protowire.ConsumeTag(jobs)
		one, size := protowire.ConsumeBytes(jobs[n:])
		list[i] = &s.jobs[i]
		if err := list[i].UnmarshalVTUnsafe(one); err != nil {
			return err
		}
		jobs = jobs[n+size:]
	}
	s.jobs = s.jobs[k:]
	e.enqueue.Jobs = list
	e.op.Enqueue, m.Op = &e.enqueue, &e.op
	return nil
}
