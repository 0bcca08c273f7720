package document

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"osqueue/fsm"
)

// The legacy broker keeps whatever a client or a person gave it: a type that is a number, a
// maxAttempts that is text, a job without a status. A queue must not be lost because of such a
// value, so a value of the wrong type becomes the nearest value of the right type, or counts as
// absent. No job is left out.

// legacy is the state of a document without a header.
type legacy struct {
	meta *fsm.Meta
	jobs []*fsm.Job
}

// readLegacy reads a document without a header.
func (d *File) readLegacy(top map[string]jsontext.Value, unknown bool) error {
	if unknown && len(top) == 0 {
		return errors.New("this JSON is not a queue document: it has none of the fields jobs, broker, brokerHeartbeat and completedTotal")
	}
	l := &legacy{meta: &fsm.Meta{Settings: fsm.DefaultSettings(), Level: fsm.BaseLevel}}
	d.legacy = l
	if b := top["broker"]; b != nil && b.Kind() != 'n' {
		d.Broker = new(plainText(b))
	}
	setNearest(&d.BrokerHeartbeat, top["brokerHeartbeat"])
	var completed int64
	setNearest(&completed, top["completedTotal"])
	d.CompletedTotal = uint64(max(completed, 0))
	l.meta.CompletedTotal = d.CompletedTotal
	if jobs := top["jobs"]; jobs != nil && jobs.Kind() != 'n' {
		if jobs.Kind() != '[' {
			return fmt.Errorf("at /jobs: must be an array, not %s", kindName(jobs.Kind()))
		}
		var err error
		if l.jobs, err = readJobs(jobs); err != nil {
			return err
		}
	}
	l.mend(d.BrokerHeartbeat)
	return nil
}

// machine builds the machine.
func (l *legacy) machine() (*fsm.Machine, error) {
	if err := fsm.CheckMeta(l.meta); err != nil {
		return nil, fmt.Errorf("queue document: %w", err)
	}
	b := fsm.NewBuilder(l.meta)
	for _, j := range l.jobs {
		own := *j
		own.Exec = new(*j.Exec)
		if err := b.AddJob(&own); err != nil {
			return nil, fmt.Errorf("queue document: %w", err)
		}
	}
	return b.Machine(), nil
}

// readJobs reads a list of jobs loosely. An element that is not a job becomes a dead one.
func readJobs(list jsontext.Value) (jobs []*fsm.Job, err error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(list), anyJSON...)
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	for dec.PeekKind() != ']' {
		raw, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		j, err := readJob(raw)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, j)
	}
	return jobs, nil
}

func readJob(raw jsontext.Value) (*fsm.Job, error) {
	j := &fsm.Job{MaxAttempts: fsm.MaxAttemptsUnset, Exec: &fsm.Execution{}}
	if raw.Kind() != '{' {
		j.Status, j.Exec.Worker = fsm.Dead, fsm.Anonymous
		j.SetPayload(bytes.Clone(raw))
		j.Exec.LastError = "in the document it was " + kindName(raw.Kind()) + " and no job"
		return j, nil
	}
	var status string
	var worker *string
	err := eachMember(raw, func(name string, value jsontext.Value) {
		if name == "payload" {
			j.SetPayload(bytes.Clone(value))
			return
		}
		if value.Kind() == 'n' {
			return
		}
		switch name {
		case "id":
			j.ID = plainText(value)
		case "status":
			status = plainText(value)
		case "type":
			j.Type = plainText(value)
		case "workerId":
			worker = new(plainText(value))
		case "createdAt":
			setNearest(&j.CreatedAt, value)
		case "heartbeat":
			setNearest(&j.Exec.Heartbeat, value)
		case "attempts":
			setNearest(&j.Attempts, value)
		case "maxAttempts":
			setNearest(&j.MaxAttempts, value)
		}
	})
	switch s, _ := fsm.ParseStatus(status); s {
	case fsm.Unclaimed, fsm.InProgress:
		j.Status = s
	default:
		markDead(j, status)
	}
	switch {
	case worker != nil:
		j.Exec.Worker = *worker
	case j.Status != fsm.Unclaimed:
		j.Exec.Worker = fsm.Anonymous
	}
	return j, err
}

// eachMember calls fn for each member of an object. The value is valid until fn returns.
func eachMember(object jsontext.Value, fn func(name string, value jsontext.Value)) error {
	dec := jsontext.NewDecoder(bytes.NewBuffer(object), anyJSON...)
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return err
		}
		key := name.String()
		value, err := dec.ReadValue()
		if err != nil {
			return err
		}
		fn(key, value)
	}
	return nil
}

// markDead marks a job dead whose status no broker would have handed out, so it waits for a
// person.
func markDead(j *fsm.Job, status string) {
	j.Status = fsm.Dead
	j.Exec.LastError = "the document gave it no status"
	if status != "" {
		j.Exec.LastError = fmt.Sprintf("the document gave it the status %q, which a legacy broker does not have", status)
	}
}

// plainText returns the text of a string, or the JSON of a value of another type. Invalid
// Unicode becomes the replacement character.
func plainText(raw jsontext.Value) string {
	if raw.Kind() != '"' {
		return string(raw)
	}
	text, _ := jsontext.AppendUnquote(nil, raw)
	return string(text)
}

// setNearest sets an integer to the nearest one that it can hold, and leaves it unchanged if
// the value is not a number.
func setNearest[N int32 | int64](dst *N, raw jsontext.Value) {
	if raw == nil {
		return
	}
	v, ok := nearest(plainText(raw))
	if !ok {
		return
	}
	if _, small := any(dst).(*int32); small {
		v = min(max(v, math.MinInt32), math.MaxInt32)
	}
	*dst = N(v)
}

// nearest returns the integer nearest to a number; ok is false if text is not a number.
func nearest(text string) (v int64, ok bool) {
	if v, err := strconv.ParseInt(text, 10, 64); err == nil {
		return v, true
	}
	f, err := strconv.ParseFloat(text, 64)
	if math.IsNaN(f) || err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, false
	}
	// The bounds of int64 are not exact as float64, so largest, the largest float64 within
	// them, stands for the upper bound.
	const largest = 1<<63 - 1<<10
	return int64(math.Trunc(min(max(f, math.MinInt64), largest))), true
}

// lastTime is the end of the year 9999, ms. Later times are in another unit and must not
// set a clock: the clock would never go back.
const lastTime = 253_402_300_799_999

// mend sets the clock to the latest time in the document, replaces values that a machine
// cannot hold by the nearest ones, and gives every job its place and an id of its own.
func (l *legacy) mend(heartbeat int64) {
	now := int64(0)
	for _, at := range l.times(heartbeat) {
		if at <= lastTime {
			now = max(now, at)
		}
	}
	l.meta.NowMs = now
	for i, j := range l.jobs {
		j.Seq = uint64(i) + 1
		j.Attempts = max(j.Attempts, 0)
		j.CreatedAt = min(max(j.CreatedAt, 0), now)
		j.Exec.Heartbeat = min(max(j.Exec.Heartbeat, 0), now)
		if j.Status == fsm.InProgress {
			j.Exec.ClaimedAt, j.Exec.HeldMs = j.Exec.Heartbeat, l.meta.Settings.LeaseMs
		}
	}
	l.meta.LastSeq = uint64(len(l.jobs))
	l.giveIDs()
}

func (l *legacy) times(heartbeat int64) []int64 {
	times := []int64{heartbeat}
	for _, j := range l.jobs {
		times = append(times, j.CreatedAt, j.Exec.Heartbeat)
	}
	return times
}

// giveIDs makes ids unique. Of jobs with one id the first keeps it, and the others get a
// numeric suffix.
func (l *legacy) giveIDs() {
	given := make(map[string]bool, len(l.jobs)) // true: a job has the id
	for _, j := range l.jobs {
		given[j.ID] = false
	}
	next := make(map[string]int)
	for _, j := range l.jobs {
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

// Release returns a document that no broker owns, and whose state is the same, with as few changes
// as possible: any cluster may take it over at once.
func Release(data []byte) ([]byte, error) {
	doc, err := Decode(data)
	if err != nil || doc.Broker == nil {
		return data, err
	}
	var out []byte
	from := 0
	dec := jsontext.NewDecoder(bytes.NewBuffer(data), anyJSON...)
	for {
		tok, err := dec.ReadToken()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrFormat, err)
		}
		if tok.Kind() == '}' && dec.StackDepth() == 0 {
			return append(out, data[from:]...), nil
		}
		text := ""
		switch where := dec.StackPointer(); {
		case dec.StackDepth() == 1 && where == "/broker":
			text = "null"
		case dec.StackDepth() == 2 && where == "/osqueue/address":
			text = `""`
		}
		// tok is the name of the field, or its value if that is not replaced.
		if text == "" || tok.Kind() != '"' || dec.PeekKind() == 'n' {
			continue
		}
		raw, err := dec.ReadValue()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrFormat, err)
		}
		to := int(dec.InputOffset())
		out = append(append(out, data[from:to-len(raw)]...), text...)
		from = to
	}
}
