package legacy

import (
	"errors"
	"slices"
)

// errType stands for JavaScript's TypeError on a field of undefined.
var errType = errors.New("TypeError: cannot read properties of undefined")

// The statuses.
const (
	unclaimed  = "unclaimed"
	inProgress = "in_progress"
)

// defaultMaxAttempts applies to jobs without maxAttempts.
const defaultMaxAttempts = 3

// parsed is a decoded queue.json.
type parsed struct {
	*object
	missing Missing
}

// jobs returns the list of jobs. Without one the next step fails or starts a list, as
// Missing says.
func (d *parsed) jobs() ([]any, error) {
	v, there := d.get("jobs")
	if list, ok := v.([]any); ok {
		return list, nil
	}
	if !there && d.missing == TakeForEmpty {
		return nil, nil
	}
	return nil, errType
}

// job is an element of the list; an element that is not an object has no fields.
func job(element any) *object {
	if o, ok := element.(*object); ok {
		return o
	}
	return newObject()
}

// expire returns jobs of silent workers to the queue, and removes those without attempts
// left.
func (d *parsed) expire(now, timeout float64) error {
	all, err := d.jobs()
	if err != nil {
		return err
	}
	kept := make([]any, 0, len(all))
	for _, element := range all {
		j := job(element)
		if !same(j.values["status"], inProgress) || !(now-j.number("heartbeat") > timeout) {
			kept = append(kept, element)
			continue
		}
		most := float64(defaultMaxAttempts)
		if v, ok := j.values["maxAttempts"].(float64); ok {
			most = v
		}
		if j.number("attempts") >= most {
			continue
		}
		j.set("status", unclaimed)
		j.remove("workerId")
		j.remove("heartbeat")
		kept = append(kept, j)
	}
	d.set("jobs", kept)
	return nil
}

// submission is a job that a client enqueues.
type submission struct {
	id          string
	payload     any
	hasPayload  bool
	jobType     any // nil or "": none
	maxAttempts any // nil: none
}

func (d *parsed) submit(s submission, now float64) error {
	all, err := d.jobs()
	if err != nil {
		return err
	}
	j := newObject()
	j.set("id", s.id)
	j.set("status", unclaimed)
	if s.hasPayload {
		j.set("payload", s.payload)
	}
	if s.jobType != nil && s.jobType != "" {
		j.set("type", s.jobType)
	}
	j.set("createdAt", now)
	j.set("attempts", 0.0)
	if s.maxAttempts != nil {
		j.set("maxAttempts", s.maxAttempts)
	}
	d.set("jobs", append(all, j))
	return nil
}

// absent is the workerId of a client that sends none.
type absent struct{}

// claim returns the first available job that matches, or nil.
func (d *parsed) claim(worker any, types []any, now float64) (*object, error) {
	all, err := d.jobs()
	if err != nil {
		return nil, err
	}
	for _, element := range all {
		j := job(element)
		fits := len(types) == 0 || slices.ContainsFunc(types, func(t any) bool { return same(t, j.values["type"]) })
		if !same(j.values["status"], unclaimed) || !fits {
			continue
		}
		j.set("status", inProgress)
		if _, none := worker.(absent); !none {
			j.set("workerId", worker)
		}
		j.set("heartbeat", now)
		j.set("attempts", j.number("attempts")+1)
		return j, nil
	}
	return nil, nil
}

// held returns the index of the job if the worker has claimed it, else -1.
func (d *parsed) held(id string, worker any) (all []any, at int, err error) {
	all, err = d.jobs()
	if err != nil {
		return nil, -1, err
	}
	return all, slices.IndexFunc(all, func(element any) bool {
		j := job(element)
		holder, there := j.get("workerId")
		if !there {
			holder = absent{}
		}
		return same(j.values["id"], id) && same(j.values["status"], inProgress) && same(holder, worker)
	}), nil
}

func (d *parsed) heartbeat(id string, worker any, now float64) error {
	all, at, err := d.held(id, worker)
	if err == nil && at >= 0 {
		job(all[at]).set("heartbeat", now)
	}
	return err
}

func (d *parsed) complete(id string, worker any) error {
	all, at, err := d.held(id, worker)
	if err != nil || at < 0 {
		return err
	}
	d.set("jobs", slices.Delete(all, at, at+1))
	total, _ := d.values["completedTotal"].(float64)
	d.set("completedTotal", total+1)
	return nil
}

// register is the operation of a heartbeat.
func (d *parsed) register(address string, now float64) {
	d.set("broker", address)
	d.set("brokerHeartbeat", now)
}
