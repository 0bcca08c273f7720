// Package fsmpb holds the encoded forms of log entries and of snapshot
// records. All but this file is generated.
package fsmpb

import "slices"

// HasUnknown reports whether b, or any message in it, carries a field that
// this version does not know. Walking by hand costs nanoseconds where
// reflection costs microseconds; a test keeps the walk complete.
func (b *Batch) HasUnknown() bool {
	return len(b.unknownFields) > 0 || slices.ContainsFunc(b.Mutations, (*Mutation).HasUnknown)
}

// HasUnknown is Batch.HasUnknown for one mutation.
func (m *Mutation) HasUnknown() bool {
	if len(m.unknownFields) > 0 {
		return true
	}
	switch op := m.Op.(type) {
	case *Mutation_Enqueue:
		return op.Enqueue.hasUnknown()
	case *Mutation_Claim:
		return len(op.Claim.unknownFields) > 0
	case *Mutation_Heartbeat:
		return len(op.Heartbeat.unknownFields) > 0 || slices.ContainsFunc(op.Heartbeat.Leases, (*Lease).hasUnknown)
	case *Mutation_Complete:
		return len(op.Complete.unknownFields) > 0 || op.Complete.Lease.hasUnknown()
	case *Mutation_Fail:
		return len(op.Fail.unknownFields) > 0 || op.Fail.Lease.hasUnknown()
	case *Mutation_Release:
		return len(op.Release.unknownFields) > 0 || op.Release.Lease.hasUnknown()
	case *Mutation_RegisterWorker:
		return len(op.RegisterWorker.unknownFields) > 0
	case *Mutation_WorkerDead:
		return len(op.WorkerDead.unknownFields) > 0
	case *Mutation_RegisterBroker:
		return len(op.RegisterBroker.unknownFields) > 0 || op.RegisterBroker.Settings.hasUnknown()
	}
	return false
}

func (e *Enqueue) hasUnknown() bool {
	return len(e.unknownFields) > 0 || slices.ContainsFunc(e.Jobs, (*NewJob).hasUnknown)
}

func (j *NewJob) hasUnknown() bool { return j != nil && len(j.unknownFields) > 0 }

func (l *Lease) hasUnknown() bool { return l != nil && len(l.unknownFields) > 0 }

func (s *Settings) hasUnknown() bool { return s != nil && len(s.unknownFields) > 0 }

// HasUnknown is Batch.HasUnknown for a record of a snapshot.
func (m *Meta) HasUnknown() bool { return len(m.unknownFields) > 0 || m.Settings.hasUnknown() }

// HasUnknown is Batch.HasUnknown for a record of a snapshot.
func (j *Job) HasUnknown() bool { return len(j.unknownFields) > 0 }

// HasUnknown is Batch.HasUnknown for a record of a snapshot.
func (w *Worker) HasUnknown() bool { return len(w.unknownFields) > 0 }

// HasUnknown is Batch.HasUnknown for a record of a snapshot.
func (r *ClaimRecord) HasUnknown() bool {
	return len(r.unknownFields) > 0 || slices.ContainsFunc(r.Leases, (*Lease).hasUnknown)
}
