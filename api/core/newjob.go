package core

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/onerror"
)

// jobReader reads the jobs of requests. It is safe for concurrent use.
type jobReader struct {
	limits *Limits
	now    func() int64 // the leader's clock, in ms
}

// NewJob checks a job and adds the values that the log must contain.
func (s *jobReader) NewJob(in *v1.NewJob) (*fsmpb.NewJob, error) {
	job := new(fsmpb.NewJob)
	if err := s.FillJob(in, job); err != nil {
		return nil, err
	}
	return job, nil
}

// FillJob is NewJob into a job that is zero.
func (s *jobReader) FillJob(in *v1.NewJob, job *fsmpb.NewJob) error {
	job.Id, job.Type, job.Payload, job.Priority = in.ID, in.Type, in.Payload, in.Priority
	job.RunAtMs, job.MaxAttempts, job.LeaseMs = in.RunAt, in.MaxAttempts, in.LeaseMs
	o := noOptions.Get().(*fsmpb.Options) //nolint:forcetypeassert // it has nothing else
	err := cmp.Or(s.checkNewJob(in), s.readTimes(in, job), s.readOptions(in, o), s.readUnique(in, o), s.readAfter(in, o))
	if err != nil {
		return err
	}
	if o.SizeVT() > 0 {
		job.Options = o
	} else {
		noOptions.Put(o)
	}
	if job.Artefacts, err = s.limits.readArtefacts(in.Artefacts); err != nil || job.Id != "" {
		return err
	}
	job.Id, err = NewID()
	return err
}

// noOptions has options that are zero: most jobs have none.
var noOptions = sync.Pool{New: func() any { return new(fsmpb.Options) }}

// decodedBytes is what a job of a list takes in memory until it is committed, beside its text: thirty times as much as the
// body of a short one.
var decodedBytes = int(reflect.TypeFor[v1.NewJob]().Size() + reflect.TypeFor[fsmpb.NewJob]().Size())

// NewJobs is NewJob for several jobs. Their memory counts until Settle.
func (s *jobReader) NewJobs(c *Call, in []v1.NewJob) ([]*fsmpb.NewJob, error) {
	c.decoded = len(in) * decodedBytes
	if err := c.Held.Take(c.decoded); err != nil {
		c.decoded = 0
		return nil, BrokenBody(err, 0)
	}
	jobs := make([]*fsmpb.NewJob, len(in))
	if slices.ContainsFunc(in, func(j v1.NewJob) bool { return j.Type == "" && j.ID == "" && j.Payload == nil }) {
		if i := c.firstNull("jobs"); i >= 0 {
			return nil, Blame(Fail(BadRequest, "null is not a job; send an object, at least {}"), i)
		}
	}
	all := make([]fsmpb.NewJob, len(in)) // in one allocation
	for i := range in {
		jobs[i] = &all[i]
		if err := s.FillJob(&in[i], jobs[i]); err != nil {
			return nil, Blame(err, i)
		}
	}
	return jobs, nil
}

// NewID makes the id of a job or batch. Ids sort by the time of their creation.
func NewID() (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("make an id: %w", err)
	}
	return id.String(), nil
}

func (s *jobReader) checkNewJob(in *v1.NewJob) error {
	l := s.limits
	if err := cmp.Or(l.CheckID("id", in.ID), l.CheckPathName("type", in.Type), CheckMs("leaseMs", in.LeaseMs, l.Lease)); err != nil {
		return err
	}
	if in.MaxAttempts != nil && *in.MaxAttempts < 0 {
		return Bad("maxAttempts", "is %d; must not be negative", *in.MaxAttempts)
	}
	return nil
}

// SecondsBelow is the bound, in 1973, below which a time counts as given in seconds.
const SecondsBelow = 100_000_000_000

func (s *jobReader) readTimes(in *v1.NewJob, job *fsmpb.NewJob) error {
	limit := s.limits.Delay
	if err := CheckMs("delayMs", in.DelayMs, limit); err != nil {
		return err
	}
	if in.DelayMs > 0 {
		job.RunAtMs = s.now() + in.DelayMs
	}
	if in.StartBefore != 0 && in.StartBefore < SecondsBelow {
		return Bad("startBefore", "is %d; must be a time in milliseconds since 1970", in.StartBefore)
	}
	if in.StartBefore != 0 && in.StartBefore <= in.RunAt {
		return Bad("startBefore", "is %d, not after runAt: the job would never start", in.StartBefore)
	}
	switch {
	case in.RunAt == 0:
		return nil
	case in.DelayMs != 0:
		return Bad("delayMs", "cannot be combined with runAt")
	case in.RunAt < SecondsBelow:
		return Bad("runAt", "is %d; must be a time in milliseconds since 1970", in.RunAt)
	case in.RunAt > s.now()+limit.Milliseconds():
		return Bad("runAt", "is more than %s in the future", limit.Round(time.Hour))
	}
	return nil
}

func (s *jobReader) readOptions(in *v1.NewJob, o *fsmpb.Options) (err error) {
	o.StartBeforeMs, o.TimeoutMs, o.RetainMs = in.StartBefore, in.TimeoutMs, in.RetainMs
	o.Group, o.Tags, o.Batch, o.Sequence = in.Group, in.Tags, in.BatchID, in.Sequence
	l := s.limits
	if o.Backoff, err = l.ReadBackoff("backoff", in.Backoff); err != nil {
		return err
	}
	err = cmp.Or(CheckMs("timeoutMs", in.TimeoutMs, l.Delay), CheckMs("retainMs", in.RetainMs, l.Delay), l.CheckNewName("group", in.Group), l.CheckNewName("sequence", in.Sequence), l.CheckID("batchId", in.BatchID), l.checkTags(in.Tags))
	if err != nil {
		return err
	}
	if o.OnError, err = l.readOnError(in.OnError); err != nil {
		return err
	}
	if o.Limits, err = readLimits(in.Limits); err != nil {
		return err
	}
	o.Headers, err = readHeaders(in.Headers)
	return err
}

func (s *jobReader) readUnique(in *v1.NewJob, o *fsmpb.Options) error {
	l, key := s.limits, in.UniqueKey
	if len(in.UniqueFields) > 0 {
		if err := s.checkUniqueFields(in); err != nil {
			return err
		}
		made, err := v1.UniqueKey(in.Payload, in.UniqueFields)
		if err != nil {
			return Bad("uniqueFields", "%v", err)
		}
		key = made
	}
	if err := l.CheckNewName("uniqueKey", in.UniqueKey); err != nil {
		return err
	}
	conflict, err := s.readConflict(in, key)
	if err != nil {
		return err
	}
	scope, known := fsm.UniqueActive, true
	if conflict != 0 {
		scope = fsm.UniqueWaiting
	}
	if in.UniqueScope != "" {
		scope, known = fsm.ParseUniqueScope(in.UniqueScope)
	}
	if !known {
		return UnknownValue("uniqueScope", in.UniqueScope, v1.UniqueWaiting, v1.UniqueActive, v1.UniquePeriod)
	}
	if err := CheckMs("uniqueMs", in.UniqueMs, l.Delay); err != nil {
		return err
	}
	switch {
	case key == "" && in.UniqueScope != "":
		return Bad("uniqueScope", "needs a uniqueKey")
	case scope != fsm.UniquePeriod && in.UniqueMs != 0:
		return Bad("uniqueMs", "needs the uniqueScope %q", v1.UniquePeriod)
	case scope == fsm.UniquePeriod && in.UniqueMs == 0:
		return Bad("uniqueMs", "is missing; the uniqueScope %q needs it", v1.UniquePeriod)
	case key != "":
		o.Unique = &fsmpb.Unique{
			Key: key, Scope: uint32(scope), PeriodMs: in.UniqueMs, OnConflict: conflict, WaitMs: in.DebounceMs, MaxWaitMs: in.DebounceMaxMs,
		}
	}
	return nil
}

// uniqueFieldsMax bounds the members of a payload that make a unique key.
const uniqueFieldsMax = 16

func (s *jobReader) checkUniqueFields(in *v1.NewJob) error {
	if n := len(in.UniqueFields); n > uniqueFieldsMax {
		return Bad("uniqueFields", "has %d items; at most %d are allowed", n, uniqueFieldsMax)
	}
	if in.UniqueKey != "" {
		return Bad("uniqueFields", "cannot be combined with uniqueKey")
	}
	for i, name := range in.UniqueFields {
		if name == "" {
			return Bad(fmt.Sprintf("uniqueFields[%d]", i), "is empty")
		}
	}
	return s.limits.CheckNewNames("uniqueFields", in.UniqueFields)
}

// readConflict checks what a job does to a waiting one with its unique key.
func (s *jobReader) readConflict(in *v1.NewJob, key string) (uint32, error) {
	l := s.limits
	conflict, err := Choice("onConflict", in.OnConflict, fsm.ConflictKeep, fsm.ConflictReplace, fsm.ConflictDebounce)
	if err = cmp.Or(err, CheckMs("debounceMs", in.DebounceMs, l.Delay), CheckMs("debounceMaxMs", in.DebounceMaxMs, l.Delay)); err != nil {
		return 0, err
	}
	debounces := fsm.OnConflict(conflict) == fsm.ConflictDebounce
	switch {
	case conflict != 0 && key == "":
		return 0, Bad("onConflict", "needs a uniqueKey or uniqueFields")
	case conflict != 0 && in.UniqueScope != "" && in.UniqueScope != v1.UniqueWaiting:
		return 0, Bad("onConflict", "needs the uniqueScope %q", v1.UniqueWaiting)
	case debounces && in.DebounceMs == 0:
		return 0, Bad("debounceMs", "is missing; onConflict %q needs it", v1.ConflictDebounce)
	case !debounces && in.DebounceMs != 0:
		return 0, Bad("debounceMs", "needs onConflict %q", v1.ConflictDebounce)
	case !debounces && in.DebounceMaxMs != 0:
		return 0, Bad("debounceMaxMs", "needs onConflict %q", v1.ConflictDebounce)
	case debounces && in.DebounceMaxMs != 0 && in.DebounceMaxMs < in.DebounceMs:
		return 0, Bad("debounceMaxMs", "is %d, less than debounceMs", in.DebounceMaxMs)
	case debounces && (in.RunAt != 0 || in.DelayMs != 0):
		return 0, Bad("onConflict", "%q cannot be combined with runAt or delayMs", v1.ConflictDebounce)
	}
	return conflict, nil
}

// readAfter takes ids unchecked: the jobs may come from legacy documents.
func (s *jobReader) readAfter(in *v1.NewJob, o *fsmpb.Options) error {
	if limit := s.limits.After; len(in.After) > limit {
		return Bad("after", "has %d items; a job may have at most %d", len(in.After), limit)
	}
	for i, id := range in.After {
		if err := cmp.Or(CheckJobID(fmt.Sprintf("after[%d]", i), id), s.limits.CheckNewName(fmt.Sprintf("after[%d]", i), id)); err != nil {
			return err
		}
	}
	choice, err := Choice("afterFailure", in.AfterFailure, fsm.AfterBlock, fsm.AfterCancel, fsm.AfterRun, fsm.AfterOnly)
	o.After, o.AfterFailure, o.AfterNames, o.AfterBatches, o.Step = in.After, choice, in.AfterNames, in.AfterBatches, in.Step
	return cmp.Or(err, s.checkFlow(in))
}

// checkFlow checks the names of a job and of those that it runs after, and the batches.
func (s *jobReader) checkFlow(in *v1.NewJob) error {
	if n := len(in.AfterNames); n != 0 && (n != len(in.After) || repeats(in.After) || repeats(in.AfterNames)) {
		return Bad("afterNames", "has %d items; give each job of after one name, and name each job once", n)
	}
	for i, name := range in.AfterNames {
		if err := CheckStep(fmt.Sprintf("afterNames[%d]", i), name); err != nil {
			return err
		}
	}
	if limit := s.limits.After; len(in.AfterBatches) > limit {
		return Bad("afterBatches", "has %d items; a job may have at most %d", len(in.AfterBatches), limit)
	}
	for i, id := range in.AfterBatches {
		member := fmt.Sprintf("afterBatches[%d]", i)
		if id == "" {
			return Bad(member, "is empty")
		}
		if err := s.limits.CheckID(member, id); err != nil {
			return err
		}
	}
	if in.Step == "" {
		return nil
	}
	return CheckStep("step", in.Step)
}

// repeats reports whether a list has a text twice.
func repeats(list []string) bool {
	sorted := slices.Sorted(slices.Values(list))
	return len(slices.Compact(sorted)) < len(list)
}

// CheckStep checks the name of a step or signal.
func CheckStep(member, name string) error {
	switch {
	case name == "":
		return Bad(member, "is missing")
	case len(name) > fsm.StepNameMax:
		return Bad(member, "has %d bytes; at most %d are allowed", len(name), fsm.StepNameMax)
	case name == "." || name == "..":
		return Bad(member, "is %q, which cannot be part of a path", name)
	}
	return CheckReadable(member, name)
}

// CheckStepValue checks the value of a step or signal.
func CheckStepValue(value []byte) error {
	if len(value) > fsm.StepValueMax {
		return Fail(tooLarge, "value has %d bytes; at most %d are allowed", len(value), fsm.StepValueMax)
	}
	return nil
}

// readLimits checks the limits of a job and sorts them.
func readLimits(in []string) ([]string, error) {
	if len(in) > fsm.LimitsMax {
		return nil, Bad("limits", "has %d items; a job may have at most %d", len(in), fsm.LimitsMax)
	}
	for i, key := range in {
		if err := CheckLimit(fmt.Sprintf("limits[%d]", i), key, false); err != nil {
			return nil, err
		}
	}
	out := slices.Clone(in)
	slices.Sort(out)
	return slices.Compact(out), nil
}

// HoldMax is the longest hold of a limit.
const HoldMax = 24 * time.Hour

// CheckLimit checks a key of a limit, or a pattern of keys.
func CheckLimit(member, key string, pattern bool) error {
	at := strings.IndexByte(key, '*')
	switch {
	case key == "":
		return Bad(member, "is empty; give a key, such as customer:7")
	case len(key) > fsm.LimitNameMax:
		return Bad(member, "has %d bytes; at most %d are allowed", len(key), fsm.LimitNameMax)
	case key == "." || key == "..":
		return Bad(member, "is %q, which cannot be part of a path", key)
	case strings.HasPrefix(key, "type:") || strings.HasPrefix(key, "group:"):
		return Bad(member, "is %q; limits of types and groups are settings of /v1/queues/{type}, and jobs have them without naming them", Shown(key))
	case at >= 0 && !pattern:
		return Bad(member, "is %q; a * stands for many keys, which only a rule may have: name one key", Shown(key))
	case at >= 0 && at < len(key)-1:
		return Bad(member, "is %q; a * may only be its last character", Shown(key))
	}
	return CheckReadable(member, key)
}

// readOnError checks what follows failures of a class.
func (l *Limits) readOnError(in []v1.OnError) (out []*fsmpb.OnError, err error) {
	if len(in) > onerror.Max {
		return nil, Bad("onError", "has %d items; a job may have at most %d", len(in), onerror.Max)
	}
	for i, r := range in {
		member := func(name string) string { return fmt.Sprintf("onError[%d].%s", i, name) }
		switch {
		case r.Class == "":
			return nil, Bad(member("class"), "is missing; %q is any", onerror.Any)
		case len(r.Class) > onerror.ClassMax:
			return nil, Bad(member("class"), "has %d bytes; at most %d are allowed", len(r.Class), onerror.ClassMax)
		case r.Action != v1.OnErrorDead && r.Action != v1.OnErrorRetry:
			return nil, UnknownValue(member("action"), r.Action, v1.OnErrorDead, v1.OnErrorRetry)
		case r.Action == v1.OnErrorDead && r.DelayMs != 0:
			return nil, Bad(member("delayMs"), "needs the action %q", v1.OnErrorRetry)
		}
		if err := cmp.Or(l.CheckNewName(member("class"), r.Class), CheckMs(member("delayMs"), r.DelayMs, l.Delay)); err != nil {
			return nil, err
		}
		out = append(out, &fsmpb.OnError{Class: r.Class, Dead: r.Action == v1.OnErrorDead, DelayMs: r.DelayMs})
	}
	return out, nil
}

// readHeaders checks the headers of a job and sorts them.
func readHeaders(in map[string]string) ([]*fsmpb.Header, error) {
	if len(in) == 0 {
		return nil, nil
	}
	if len(in) > fsm.HeadersMax {
		return nil, Bad("headers", "has %d names; a job may have at most %d", len(in), fsm.HeadersMax)
	}
	out, size := make([]*fsmpb.Header, 0, len(in)), 0
	for _, name := range slices.Sorted(maps.Keys(in)) {
		value := in[name]
		if !fsm.HeaderName(name) {
			return nil, Bad("headers", `has the name %q; must be 1 to %d of the characters a-z, 0-9, "-", "_" and "."`, Shown(name), fsm.HeaderNameMax)
		}
		if !utf8.ValidString(value) {
			return nil, Bad("headers."+name, "is not UTF-8")
		}
		size += len(name) + len(value)
		out = append(out, &fsmpb.Header{Name: name, Value: value})
	}
	if size > fsm.HeadersSizeMax {
		return nil, Bad("headers", "has %d bytes of names and values; a job may have at most %d", size, fsm.HeadersSizeMax)
	}
	return out, nil
}

// EnqueuedID returns the id of item i: that of the job, or of the holder of its unique key, or
// the id in the first answer to the same request.
func EnqueuedID(res fsm.Result, i int, job *fsmpb.NewJob) string {
	if i < len(res.Jobs) && res.Jobs[i] != nil {
		return res.Jobs[i].ID
	}
	return job.Id
}

func EnqueueOf(jobs []*fsmpb.NewJob) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{Jobs: jobs}}}
}

// JobReader returns a function that reads a job as POST /v1/jobs does, by the same rules, from
// a body of another source: a file of the inbox. mayEnqueue reports whether it may make jobs of a type;
// nil allows all. The id is that of the job, whatever the name
// of the file is; a body that names another id is refused. now is the leader's clock, in ms.
// Limits that are not positive take their defaults; that of maxBytes is DefaultBodyBytes.
//
// The function is safe for concurrent use, and does not keep data. Its errors describe a fault
// in the body or the id: reading the job again would not help.
func JobReader(l Limits, maxBytes int64, mayEnqueue func(jobType string) bool, now func() int64) func(id string, data []byte) (*fsmpb.Mutation, error) {
	core := &Core{Config: Config{Limits: l.withDefaults(), MaxBody: Or(maxBytes, DefaultBodyBytes)}}
	core.Reader = jobReader{&core.Config.Limits, now}
	return func(id string, data []byte) (*fsmpb.Mutation, error) { return core.readJob(id, data, mayEnqueue) }
}

func (s *Core) readJob(id string, data []byte, mayEnqueue func(jobType string) bool) (*fsmpb.Mutation, error) {
	if id == "" {
		return nil, Bad("id", "is missing")
	}
	if int64(len(data)) > s.Config.MaxBody {
		return nil, BodyTooLarge(s.Config.MaxBody)
	}
	c := &Call{Core: s, In: bytes.Clone(data)}
	var in v1.NewJob
	if err := c.parse(&in); err != nil {
		return nil, err
	}
	if in.ID != "" && in.ID != id {
		return nil, Bad("id", "is %q; must be %q, the id of the file, or be left out", Shown(in.ID), id)
	}
	if mayEnqueue != nil && !mayEnqueue(in.Type) {
		return nil, Fail(Forbidden, "files of the inbox may not make jobs of type %q; see --inbox-types", Shown(in.Type))
	}
	if len(in.Artefacts) > 0 {
		return nil, Bad("artefacts", "cannot be given in a file of the inbox: send the job to a node")
	}
	in.ID = id
	job, err := s.Reader.NewJob(&in)
	if err != nil {
		return nil, err
	}
	return EnqueueOf([]*fsmpb.NewJob{job}), nil
}
