package document

import (
	"fmt"
	"slices"
	"strconv"

	"osqueue/fsm"
)

// adoptOriginal reads only the legacy fields of available and running jobs. Fields with the
// names of this package belong to another program, or to a document of this program whose
// header is gone; only jobs with a status that the legacy broker does not have keep some.
func (d *decoder) adoptOriginal() {
	d.doc.Workers, d.doc.Claims = nil, nil
	d.doc.Queues, d.doc.Turns, d.doc.Crons = nil, nil, nil
	d.doc.Batches, d.doc.Holds, d.doc.Requests, d.doc.Tokens, d.doc.Figures = nil, nil, nil, nil, nil
	for name := range d.seen {
		if d.isBeside(name) {
			d.doc.Lost++
		}
	}
	for _, j := range slices.Concat(d.waiting, d.others) {
		if j.Status == fsm.Unclaimed || j.Status == fsm.InProgress {
			if hasOurs(j) {
				d.doc.Lost++
			}
			payload := j.Payload()
			*j = fsm.Job{
				ID: j.ID, Status: j.Status, Type: j.Type, CreatedAt: j.CreatedAt,
				Attempts: j.Attempts, MaxAttempts: j.MaxAttempts,
				Exec: &fsm.Execution{Worker: j.Exec.Worker, Heartbeat: j.Exec.Heartbeat},
				Det:  detailsOrNil(&fsm.Details{Extra: j.Details().Extra}),
			}
			j.SetPayload(payload)
		}
		j.Seq = 0
		voidClaim(j)
	}
}

// hasOurs reports whether a job has fields that the legacy broker does not know and that
// have names of this package.
func hasOurs(j *fsm.Job) bool {
	det := *j.Details()
	det.Extra = ""
	e := j.Execution()
	return j.Opt != nil || detailsOrNil(&det) != nil || j.Seq != 0 || j.Priority != 0 || j.RunAt != 0 || e.Token != 0 ||
		e.LeaseMs != 0 || j.AttemptEnd != fsm.NoEnd || e.FinishedAt != 0 || e.Result != nil || e.LastError != ""
}

// overtake voids the values that a legacy broker does not maintain.
func (d *decoder) overtake() {
	d.doc.Workers, d.doc.Claims = nil, nil
	for _, j := range d.waiting {
		if d.state.present && j.Seq > d.state.LastSeq {
			j.Seq = 0 // this position was never assigned
		}
		voidClaim(j)
	}
}

func voidClaim(j *fsm.Job) {
	j.Exec.Token, j.AttemptEnd = 0, fsm.NoEnd
	voidDetails(j)
	if j.Status == fsm.InProgress {
		j.Exec.ClaimedAt, j.Exec.HeldMs = j.Exec.Heartbeat, unknownLease
	}
}

// mend replaces the values in a list that a legacy broker has written by the nearest values
// that a machine can hold. It leaves no job out.
func (d *decoder) mend() {
	mended := d.waiting
	if d.doc.writer() == original {
		mended = slices.Concat(d.waiting, d.others)
	}
	now := d.doc.Meta.Now
	for _, j := range mended {
		j.Attempts = max(j.Attempts, 0)
		for _, at := range []*int64{&j.CreatedAt, &j.Exec.ClaimedAt, &j.Exec.Heartbeat, &j.Exec.FinishedAt} {
			*at = min(max(*at, 0), now)
		}
		mendDetails(j, now)
	}
	d.giveIDs()
}

func mendDetails(j *fsm.Job, now int64) {
	if j.Det == nil {
		return
	}
	d := j.Det
	d.CancelAt, d.ProgressAt = min(max(d.CancelAt, 0), now), min(max(d.ProgressAt, 0), now)
	d.Progress.Percent = min(d.Progress.Percent, 100)
	for i := range d.History {
		t := &d.History[i]
		t.Number = max(t.Number, 0)
		t.StartedAt, t.EndedAt = min(max(t.StartedAt, 0), now), min(max(t.EndedAt, 0), now)
	}
	j.Det = detailsOrNil(d)
}

// giveIDs makes ids unique. Of jobs with one id the first keeps it, and the others get a
// numeric suffix.
func (d *decoder) giveIDs() {
	jobs := slices.Concat(d.waiting, d.others)
	given := make(map[string]bool, len(jobs)) // true: a job has the id
	for _, j := range jobs {
		given[j.ID] = false
	}
	next := make(map[string]int)
	for _, j := range jobs {
		if j.ID != "" && !given[j.ID] {
			given[j.ID] = true
			continue
		}
		base := j.ID
		if base == "" {
			base = "unnamed"
		}
		j.ID = unusedID(base, given, next)
	}
}

// unusedID returns base with the next numeric suffix that makes it an unused id, and
// records it in given.
func unusedID(base string, given map[string]bool, next map[string]int) string {
	for {
		next[base]++
		id := base + "-" + strconv.Itoa(next[base])
		if _, taken := given[id]; !taken {
			given[id] = true
			return id
		}
	}
}

// markDead marks a job dead whose status is unknown: no broker would have handed it out, so it
// waits for a person.
func markDead(j *fsm.Job, status string) {
	j.Status = fsm.Dead
	j.Exec.LastError = "the document gave it no status"
	if status != "" {
		j.Exec.LastError = fmt.Sprintf("the document gave it the status %q, which is not known", status)
	}
}

// noJob keeps an element of a list that is not an object, as a dead job with the element as
// payload.
func (d *decoder) noJob() (*fsm.Job, error) {
	kind := d.dec.PeekKind()
	j := &fsm.Job{Status: fsm.Dead, MaxAttempts: fsm.MaxAttemptsUnset, Exec: &fsm.Execution{Worker: fsm.Anonymous}}
	var payload []byte
	if err := d.json(&payload); err != nil {
		return nil, err
	}
	j.SetPayload(payload)
	j.Exec.LastError = "in the document it was " + kindName(kind) + " and no job"
	return j, nil
}

// unknownLease is the value of Execution.HeldMs until the settings are known.
const unknownLease = -1 << 63
