// Package fsmpb has the encoded forms of log entries and of snapshot records. All files but
// unknown.go, decode.go and records.go are generated.
package fsmpb

import (
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// HasUnknown reports whether m, or any message in it, has a field that this version does not
// know, or a mutation whose message is nil, which its encoding would lose. In jobs and in the
// frequent mutations it looks at each message without reflection: that takes nanoseconds, and
// reflection takes microseconds. A test checks that this code knows every message.
func HasUnknown(m proto.Message) bool {
	switch m := m.(type) {
	case *Batch:
		return len(m.unknownFields) > 0 || slices.ContainsFunc(m.Mutations, (*Mutation).hasUnknown)
	case *Job:
		return len(m.unknownFields) > 0 || m.Options.hasUnknown() || m.Details.hasUnknown()
	}
	return hasUnknown(m.ProtoReflect())
}

// hasUnknown is HasUnknown for any message.
func hasUnknown(m protoreflect.Message) (found bool) {
	if len(m.GetUnknown()) > 0 {
		return true
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Message() == nil:
		case f.IsList():
			for i := range v.List().Len() {
				found = found || hasUnknown(v.List().Get(i).Message())
			}
		default:
			found = !v.Message().IsValid() || hasUnknown(v.Message())
		}
		return !found
	})
	return found
}

func (m *Mutation) hasUnknown() bool {
	if m == nil {
		return false
	}
	if len(m.unknownFields) > 0 || m.Request != nil && len(m.Request.unknownFields) > 0 {
		return true
	}
	switch op := m.Op.(type) {
	case *Mutation_Enqueue:
		return op.Enqueue.hasUnknown()
	case *Mutation_Claim:
		return op.Claim == nil || len(op.Claim.unknownFields) > 0
	case *Mutation_Heartbeat:
		h := op.Heartbeat
		return h == nil || len(h.unknownFields) > 0 || slices.ContainsFunc(h.Leases, (*Lease).hasUnknown)
	case *Mutation_Complete:
		return op.Complete == nil || len(op.Complete.unknownFields) > 0 || op.Complete.Lease.hasUnknown()
	case *Mutation_Fail:
		return op.Fail == nil || len(op.Fail.unknownFields) > 0 || op.Fail.Lease.hasUnknown()
	case *Mutation_Release:
		return op.Release == nil || len(op.Release.unknownFields) > 0 || op.Release.Lease.hasUnknown()
	case *Mutation_Group:
		g := op.Group
		return g == nil || len(g.unknownFields) > 0 || slices.ContainsFunc(g.Mutations, (*Mutation).hasUnknown)
	}
	return hasUnknown(m.ProtoReflect())
}

func (e *Enqueue) hasUnknown() bool {
	return e == nil || len(e.unknownFields) > 0 || slices.ContainsFunc(e.Jobs, (*NewJob).hasUnknown) || e.NewBatch.hasUnknown() ||
		e.Scope != nil && len(e.Scope.unknownFields) > 0 || e.Parent.hasUnknown()
}

func (p *Parent) hasUnknown() bool {
	return p != nil && (len(p.unknownFields) > 0 || p.Lease.hasUnknown())
}

func (b *NewBatch) hasUnknown() bool {
	return b != nil && (len(b.unknownFields) > 0 || b.Callback.hasUnknown() || b.Quota.hasUnknown())
}

func (j *NewJob) hasUnknown() bool {
	return j != nil && (len(j.unknownFields) > 0 || j.Options.hasUnknown() || j.Quota.hasUnknown() ||
		slices.ContainsFunc(j.Artefacts, (*NamedArtefact).hasUnknown))
}

func (b *Backoff) hasUnknown() bool { return b != nil && len(b.unknownFields) > 0 }

func (h *Header) hasUnknown() bool { return h != nil && len(h.unknownFields) > 0 }

func (r *OnError) hasUnknown() bool { return r != nil && len(r.unknownFields) > 0 }

func (a *NamedArtefact) hasUnknown() bool { return a != nil && len(a.unknownFields) > 0 }

func (q *Quota) hasUnknown() bool { return q != nil && len(q.unknownFields) > 0 }

func (u *Unique) hasUnknown() bool { return u != nil && len(u.unknownFields) > 0 }

func (l *Lease) hasUnknown() bool {
	return l != nil && (len(l.unknownFields) > 0 || l.Progress.hasUnknown())
}

func (p *Progress) hasUnknown() bool { return p != nil && len(p.unknownFields) > 0 }

func (o *Options) hasUnknown() bool {
	return o != nil && (len(o.unknownFields) > 0 || o.Backoff.hasUnknown() || o.Unique.hasUnknown() ||
		slices.ContainsFunc(o.Headers, (*Header).hasUnknown) || slices.ContainsFunc(o.OnError, (*OnError).hasUnknown))
}

func (d *Details) hasUnknown() bool {
	return d != nil && (len(d.unknownFields) > 0 || d.Progress.hasUnknown() ||
		slices.ContainsFunc(d.History, func(a *Attempt) bool { return len(a.unknownFields) > 0 }) ||
		slices.ContainsFunc(d.Steps, func(s *Step) bool { return len(s.unknownFields) > 0 }) ||
		slices.ContainsFunc(d.Signals, func(s *Signal) bool { return len(s.unknownFields) > 0 }) ||
		slices.ContainsFunc(d.Links, func(l *SignalLink) bool { return len(l.unknownFields) > 0 }))
}
