package fsmpb

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strconv"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Copy returns a copy of a record that is to be changed. The two share the parts of the record,
// which do not change. A small record without parts is cloned in less time.
func Copy[M proto.Message](record M) M {
	from := record.ProtoReflect()
	to := from.New()
	from.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		to.Set(f, v)
		return true
	})
	return to.Interface().(M)
}

// Clone returns a copy of a message, or nil for nil. The two share no memory, so that the copy does
// not keep a log entry in memory.
func Clone[M any, P interface {
	*M
	MarshalVT() ([]byte, error)
	UnmarshalVTUnsafe(data []byte) error
}](m P) P {
	if m == nil {
		return nil
	}
	c := P(new(M))
	data, err := m.MarshalVT()
	if err == nil {
		err = c.UnmarshalVTUnsafe(data)
	}
	if err != nil {
		panic("a message cannot be copied: " + err.Error()) // it was decoded
	}
	return c
}

// Optional returns the options of a new job that is to be changed, and makes them if it has none.
func (j *NewJob) Optional() *Options {
	if j.Options == nil {
		j.Options = new(Options)
	}
	return j.Options
}

// Recounted returns a copy of b whose counts are to be changed, as Copy does, without its ten allocations: each end of a
// job needs one.
func (b *JobBatch) Recounted() *JobBatch {
	return &JobBatch{
		Id: b.Id, CreatedAtMs: b.CreatedAtMs, Total: b.Total, Completed: b.Completed, Dead: b.Dead, Cancelled: b.Cancelled,
		EndedAtMs: b.EndedAtMs, Callback: b.Callback, CallbackOn: b.CallbackOn, Called: b.Called, Account: b.Account, Parent: b.Parent,
	}
}

// Pending returns the number of jobs that have not ended.
func (b *JobBatch) Pending() uint64 { return b.Total - b.Completed - b.Dead - b.Cancelled }

// SameAs reports whether two schedules have the same definition. Times and counts of
// their fires do not matter.
func (c *Cron) SameAs(o *Cron) bool {
	return c.Spec == o.Spec && c.TimeZone == o.TimeZone && c.Overlap == o.Overlap && c.Missed == o.Missed && c.Paused == o.Paused &&
		c.StartMs == o.StartMs && c.EndMs == o.EndMs && c.JitterMs == o.JitterMs && c.MaxFires == o.MaxFires && proto.Equal(c.Job, o.Job)
}

// RunsMax is the number of runs that a schedule keeps.
const RunsMax = 50

// AddRun adds a run to c, which is a copy that is to be changed.
func (c *Cron) AddRun(run *CronRun) {
	c.Runs = append(slices.Clip(c.Runs), run) // the original has the old list
	c.Runs = c.Runs[max(0, len(c.Runs)-RunsMax):]
}

// WithEnd returns a copy of c that has the status of a job in the run that enqueued the job; 0 is that of a job that has
// not ended. It returns nil if c has no such run, and for a nil c. An id that was used again is that of the youngest run.
func (c *Cron) WithEnd(jobID string, status uint32) *Cron {
	for i, r := range slices.Backward(c.GetRuns()) {
		if r.JobId == jobID && !r.Duplicate {
			c = Copy(c)
			c.Runs = slices.Clone(c.Runs)
			c.Runs[i] = &CronRun{AtMs: r.AtMs, JobId: r.JobId, Status: status}
			return c
		}
	}
	return nil
}

// JitterOf returns by how many ms the run time of the job for the time at is later. It is below JitterMs, which must be
// positive, and the same for every call.
func (c *Cron) JitterOf(at int64) int64 {
	sum := sha256.Sum256(strconv.AppendInt(append([]byte(c.Name), 0), at, 10))
	return int64(binary.BigEndian.Uint64(sum[:]) % uint64(c.JitterMs))
}

// TenantID returns the owner of the objects that the token makes. All tokens without limits are of
// the tenant "". A limited token without a tenant is one by itself, with those that it is rotated to.
func (t *Token) TenantID() string {
	if len(t.Types) == 0 && len(t.Groups) == 0 {
		return ""
	}
	return cmp.Or(t.Tenant, t.FamilyID())
}

// FamilyID returns the id of the first token of the chain of rotations. Claims and quotas
// belong to the family.
func (t *Token) FamilyID() string { return cmp.Or(t.Family, t.Id) }

// SameAs reports whether two types have the same settings. The level of the rate does not
// matter.
func (s *QueueSettings) SameAs(o *QueueSettings) bool {
	a, b := Copy(s), Copy(o)
	a.Level, a.LevelAtMs, b.Level, b.LevelAtMs = 0, 0, 0, 0
	return proto.Equal(a, b)
}

// Quiet reports whether the worker gets no new jobs.
func (w *Worker) Quiet() bool { return w.QuietSinceMs != 0 }

// Gone reports whether the worker was declared dead. It is kept because it was quiet.
func (w *Worker) Gone() bool { return w.GoneAtMs != 0 }
