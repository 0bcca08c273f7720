package document

import "osqueue/fsm"

// jobFields is a job during decoding. A pointer that stays nil takes a value that depends
// on other fields.
type jobFields struct {
	fsm.Job
	payload           []byte
	oddStatus         string // of a loose reading: an unknown status
	worker            *string
	options           fsm.Options
	details           fsm.Details
	heldMs, claimedAt *int64
	extra             extras
}

// jobInto returns a function that reads one job and appends it to list.
func (d *decoder) jobInto(list *[]*fsm.Job, loose bool) func() error {
	return func() error {
		before := d.loose
		d.loose = loose
		j, err := d.job()
		d.loose = before
		*list = append(*list, j)
		return err
	}
}

func (d *decoder) job() (*fsm.Job, error) {
	if d.loose && d.dec.PeekKind() != '{' {
		return d.noJob()
	}
	d.scratch = jobFields{Job: fsm.Job{MaxAttempts: fsm.MaxAttemptsUnset, Exec: new(fsm.Execution)}}
	if err := d.objectAnd(d.jobMember, &d.scratch.extra); err != nil {
		return nil, err
	}
	if !d.loose {
		if err := d.checkJob(); err != nil {
			return nil, err
		}
	}
	j := d.scratch.job()
	d.doc.Lost += d.scratch.extra.lost
	return j, nil
}

func (d *decoder) checkJob() error {
	switch {
	case d.scratch.ID == "":
		return d.fail("the job has no id", nil)
	case d.scratch.Status == 0:
		return d.fail("the job has no status", nil)
	}
	return nil
}

func (d *decoder) jobMember(name string) any {
	f := &d.scratch
	dst := f.member(name)
	if dst == nil {
		dst = d.optionMember(&f.options, name)
	}
	if dst == nil {
		dst = d.detailMember(&f.details, name)
	}
	return dst
}

func (f *jobFields) member(name string) any {
	switch name {
	case "id":
		return &f.ID
	case "status":
		return statusOf{known: &f.Status, odd: &f.oddStatus}
	case "payload":
		return &f.payload
	case "type":
		return &f.Type
	case "createdAt":
		return &f.CreatedAt
	case "attempts":
		return &f.Attempts
	case "maxAttempts":
		return &f.MaxAttempts
	case "workerId":
		return &f.worker
	case "heartbeat":
		return &f.Exec.Heartbeat
	}
	return f.ours(name)
}

// ours returns the destination of a field that the legacy broker does not know.
func (f *jobFields) ours(name string) any {
	switch name {
	case "seq":
		return &f.Seq
	case "priority":
		return &f.Priority
	case "runAt":
		return &f.RunAt
	case "token":
		return &f.Exec.Token
	case "claimedAt":
		return &f.claimedAt
	case "leaseMs":
		return &f.Exec.LeaseMs
	case "heldMs":
		return &f.heldMs
	case "attemptEnd":
		return endOf(&f.AttemptEnd)
	case "finishedAt":
		return &f.Exec.FinishedAt
	case "result":
		return &f.Exec.Result
	case "lastError":
		return &f.Exec.LastError
	case "claimInstance":
		return &f.Exec.Instance
	case "unconfirmed":
		return &f.Exec.Unconfirmed
	}
	return nil
}

// job returns the finished job.
func (f *jobFields) job() *fsm.Job {
	j := f.Job
	j.SetPayload(f.payload)
	if j.Status == 0 { // only in a loose reading
		markDead(&j, f.oddStatus)
	}
	j.Exec.Worker = namelessWorker(j.Status)
	if f.worker != nil {
		j.Exec.Worker = *f.worker
	}
	running := j.Status == fsm.InProgress
	switch {
	case f.heldMs != nil:
		j.Exec.HeldMs = *f.heldMs
	case running:
		j.Exec.HeldMs = unknownLease
	}
	switch {
	case f.claimedAt != nil:
		j.Exec.ClaimedAt = *f.claimedAt
	case running:
		j.Exec.ClaimedAt = j.Exec.Heartbeat
	}
	f.details.Extra = f.extra.text()
	j.Opt, j.Det = optionsOrNil(&f.options), detailsOrNil(&f.details)
	return &j
}

func (d *decoder) worker() error {
	w := new(fsm.Worker)
	err := d.object(func(name string) any {
		switch name {
		case "name":
			return &w.Name
		case "types":
			return &w.Types
		case "version":
			return &w.Version
		case "address":
			return &w.Address
		case "registeredAt":
			return &w.RegisteredAt
		case "lastSeen":
			return &w.LastSeen
		case "capacity":
			return &w.Capacity
		case "quietSince":
			return &w.QuietSince
		case "quietedBy":
			return &w.QuietedBy
		case "goneAt":
			return &w.GoneAt
		case "instance":
			return &w.Instance
		case "account":
			return &w.Account
		}
		return nil
	})
	d.doc.Workers = append(d.doc.Workers, w)
	return err
}

func (d *decoder) claim() error {
	c := new(fsm.ClaimRecord)
	err := d.object(func(name string) any {
		switch name {
		case "worker":
			return &c.Worker
		case "requestId":
			return &c.RequestID
		case "claimedAt":
			return &c.ClaimedAt
		case "leases":
			return func() error { return d.list(func() error { return d.lease(c) }) }
		}
		return nil
	})
	d.doc.Claims = append(d.doc.Claims, c)
	return err
}

func (d *decoder) lease(c *fsm.ClaimRecord) error {
	var l fsm.Lease
	err := d.object(func(name string) any {
		switch name {
		case "job":
			return &l.JobID
		case "token":
			return &l.Token
		}
		return nil
	})
	c.Leases = append(c.Leases, l)
	return err
}
