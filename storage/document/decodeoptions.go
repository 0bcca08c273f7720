package document

import (
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// optionMember returns the destination of an option of the producer.
func (r *reader) optionMember(o *fsm.Options, name string) any {
	switch name {
	case "backoff":
		return r.backoff(&o.Backoff)
	case "timeoutMs":
		return &o.TimeoutMs
	case "group":
		return &o.Group
	case "tags":
		return &o.Tags
	case "uniqueKey":
		return &o.Unique.Key
	case "uniqueScope":
		return wordOf("the scope of a unique key", &o.Unique.Scope)
	case "uniqueMs":
		return &o.Unique.PeriodMs
	case "after":
		return &o.After
	case "afterFailure":
		return wordOf("afterFailure", &o.AfterFailure)
	case "batchId":
		return &o.Batch
	case "cron":
		return &o.Cron
	case "headers":
		return listPart(r, &o.Headers, headerMember)
	case "quotaAccount":
		return &o.Account
	}
	return nil
}

func headerMember(h *fsm.Header, name string) any {
	switch name {
	case "name":
		return &h.Name
	case "value":
		return &h.Value
	}
	return nil
}

func (r *reader) backoff(b *fsm.Backoff) part {
	return r.objectPart(func(name string) any {
		switch name {
		case "kind":
			return wordOf("the kind of backoff", &b.Kind)
		case "baseMs":
			return &b.BaseMs
		case "capMs":
			return &b.CapMs
		case "jitter":
			return &b.Jitter
		}
		return nil
	})
}

// detailMember returns the destination of a detail of a job.
func (r *reader) detailMember(d *fsm.Details, name string) any {
	switch name {
	case "waitsFor":
		return &d.Waits
	case "attemptTimeoutMs":
		return &d.TimeoutMs
	case "cancelAt":
		return &d.CancelAt
	case "progress":
		return r.objectPart(func(name string) any {
			switch name {
			case "percent":
				return &d.Progress.Percent
			case "message":
				return &d.Progress.Message
			case "at":
				return &d.ProgressAt
			}
			return nil
		})
	case "history":
		return r.history(&d.History)
	case "attemptLog":
		return &d.Log
	case "claimOwner":
		return &d.Owner
	case "givenBack":
		return &d.GivenBack
	}
	return nil
}

// history returns a part that reads attempts. An attempt without workerId belongs to the
// anonymous worker.
func (r *reader) history(dst *[]fsm.Attempt) part {
	type attempt struct {
		fsm.Attempt
		worker *string
	}
	var read []attempt
	list := listPart(r, &read, func(t *attempt, name string) any {
		switch name {
		case "number":
			return &t.Number
		case "startedAt":
			return &t.StartedAt
		case "endedAt":
			return &t.EndedAt
		case "workerId":
			return &t.worker
		case "error":
			return &t.Error
		case "end":
			return endOf(&t.End)
		}
		return nil
	})
	return part{kind: list.kind, read: func() error {
		err := list.read()
		*dst = nil
		for _, t := range read {
			t.Worker = fsm.Anonymous
			if t.worker != nil {
				t.Worker = *t.worker
			}
			*dst = append(*dst, t.Attempt)
		}
		return err
	}}
}

// template returns a part that reads a job that is not enqueued yet.
func (r *reader) template(dst **fsmpb.NewJob) part {
	return part{kind: '{', read: func() error {
		var n fsmpb.NewJob
		var o fsm.Options
		var quota fsmpb.Quota
		err := r.object(func(name string) any {
			switch name {
			case "id":
				return &n.Id
			case "type":
				return &n.Type
			case "payload":
				return &n.Payload
			case "priority":
				return &n.Priority
			case "runAt":
				return &n.RunAtMs
			case "maxAttempts":
				return &n.MaxAttempts
			case "leaseMs":
				return &n.LeaseMs
			case "quotaJobs":
				return &quota.MaxJobs
			case "quotaBytes":
				return &quota.MaxBytes
			}
			return r.optionMember(&o, name)
		})
		t := templateOf(&o)
		t.Id, t.Type, t.Payload, t.Priority = n.Id, n.Type, n.Payload, n.Priority
		t.RunAtMs, t.MaxAttempts, t.LeaseMs = n.RunAtMs, n.MaxAttempts, n.LeaseMs
		if quota.Account = o.Account; quota.Account != "" {
			t.Quota = &quota
		}
		*dst = t
		return err
	}}
}

// optionsOrNil returns a copy of o, or nil if all of it is zero.
func optionsOrNil(o *fsm.Options) *fsm.Options {
	rest := o.Backoff == (fsm.Backoff{}) && o.Unique == (fsm.Unique{}) && o.TimeoutMs == 0 && o.AfterFailure == 0
	if rest && o.Group == "" && o.Batch == "" && o.Cron == "" && len(o.Tags) == 0 && len(o.After) == 0 && len(o.Headers) == 0 && o.Account == "" {
		return nil
	}
	c := *o
	return &c
}

// detailsOrNil returns a copy of d, or nil if all of it is zero.
func detailsOrNil(d *fsm.Details) *fsm.Details {
	rest := d.Progress == (fsm.Progress{}) && d.ProgressAt == 0 && d.CancelAt == 0 && d.TimeoutMs == 0
	if rest && len(d.History) == 0 && len(d.Waits) == 0 && d.Extra == "" && d.Log == "" && d.Owner == 0 && d.GivenBack == 0 {
		return nil
	}
	c := *d
	return &c
}
