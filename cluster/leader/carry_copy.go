package leader

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"

	"osqueue/fsm"
	"osqueue/storage"
	"osqueue/storage/document"
)

// keptFile is the number of jobs in one object of a copy.
const keptFile = 1000

// keep stores under conflicts/ what is not carried over: jobs with payloads and results, and
// records. It returns the key of the first object. The keys are derived from the content, so a
// repeated adoption stores nothing twice.
func (l *Leader) keep(ctx context.Context, c *carried) (first string, err error) {
	at := l.meta().LSN
	for part := range slices.Chunk(c.kept, keptFile) {
		data := document.EncodeJobs(part, fmt.Sprintf("cluster %s acknowledged these jobs up to %s; the adopted document does not have them, and they "+
			"could not be carried over", l.do.ClusterID(), at))
		key, err := l.keepObject(ctx, at, "jobs", data)
		if err != nil {
			return "", err
		}
		if first == "" {
			first = key
		}
	}
	if c.records.Len() == 0 {
		return first, nil
	}
	data := document.EncodeRecords(&c.records, fmt.Sprintf("cluster %s had these records at %s, and had deleted those in the list deleted; "+
		"the records of the adopted document replaced them", l.do.ClusterID(), at))
	key, err := l.keepObject(ctx, at, "records", data)
	if first == "" {
		first = key
	}
	return first, err
}

func (l *Leader) keepObject(ctx context.Context, at fsm.LSN, kind string, data []byte) (key string, err error) {
	key = fmt.Sprintf("conflicts/%s-%s-%.8x.json", at, kind, sha256.Sum256(data))
	if w := l.cfg.Bucket.PutIfAbsent(ctx, key, data); w.Outcome == storage.Unknown {
		return "", fmt.Errorf("write %s to %s: %s: %w", kind, key, w.Outcome, w.Err)
	}
	return key, nil
}

// Carried counts the jobs and records that this cluster had acknowledged and that a document
// that this node adopted lacked, since this process started.
type Carried struct {
	Jobs    int    // carried over
	Ended   int    // jobs of the document that got the end that they had here
	Kept    int    // jobs that were not carried over, only stored as a copy
	Records int    // settings, schedules, tokens, hooks and request keys, only stored as a copy
	Copy    string // key of the newest copy; "" for none
}

func (c *carried) sum(copied string) Carried {
	return Carried{Jobs: c.jobs, Ended: c.ended, Kept: len(c.kept), Records: c.records.Len(), Copy: copied}
}

// plus adds the counts of an earlier adoption.
func (c Carried) plus(before *Carried) Carried {
	c.Jobs += before.Jobs
	c.Ended += before.Ended
	c.Kept += before.Kept
	c.Records += before.Records
	if c.Copy == "" {
		c.Copy = before.Copy
	}
	return c
}

// noteCarried adds the result of an adoption to Carried, and logs it.
func (l *Leader) noteCarried(c *carried, copied string) {
	sum := c.sum(copied)
	if sum == (Carried{}) {
		return
	}
	log := l.log.Warn
	if sum.Kept+sum.Records > 0 {
		log = l.log.Error
	}
	r := &c.records
	log("the adopted document lacked changes that this cluster had acknowledged",
		"carried_over", sum.Jobs, "ended_as_here", sum.Ended, "only_in_the_copy", sum.Kept,
		"settings", len(r.Settings), "schedules", len(r.Schedules), "tokens", len(r.Tokens), "hooks", len(r.Hooks),
		"request_keys", len(r.Requests), "deleted", len(r.Deleted), "copy", copied)
	if before := l.carried.Load(); before != nil {
		sum = sum.plus(before)
	}
	l.carried.Store(&sum)
}
