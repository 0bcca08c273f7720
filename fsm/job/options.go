package job

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"osqueue/fsm/backoff"
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/onerror"
	"osqueue/fsm/tenants"
)

// An optional field of a job is in this file, in Options and in the functions that copy, compare, check and count it, and
// in record.go.

// Options has the fields of a job that few producers set. They never change after the
// enqueue, so all versions of a job share them.
type Options struct {
	Backoff      backoff.Backoff // kind backoff.Unset takes the type's
	TimeoutMs    int64           // of an attempt, even with heartbeats; 0 takes the type's
	Group        string          // claims rotate over the groups of a type; "" is a group as well
	Tags         []string
	Unique       Unique
	After        []string // ids of the jobs that it waits for
	AfterFailure AfterFailure
	Batch        string           // id of the batch that it belongs to
	Cron         string           // name of the schedule that enqueued it
	Headers      []*fsmpb.Header  // sorted by name
	Account      string           // in which it counts (account.go); "": none
	Limits       []string         // keys of which each must have room, sorted
	Sequence     string           // its jobs run one after another; "": none
	StartBefore  int64            // ms, see expire; 0 or less: none
	RetainMs     int64            // after its end; 0 or less takes the type's
	OnError      []*fsmpb.OnError // see package onerror
	AfterNames   []string         // of the jobs of After; none: they have those of their own
	AfterBatches []string         // ids of the batches that it waits for
	Step         string           // its name in the batch
}

// Unique is a key that only one job of a type may hold at a time. An empty key is no key.
type Unique struct {
	Key      string
	Scope    UniqueScope
	PeriodMs int64 // of UniquePeriod
}

// UniqueScope is the period in which a job holds its unique key.
type UniqueScope uint8

// The scopes. Snapshots have these numbers: they must not change.
const (
	UniqueNone    UniqueScope = iota
	UniqueWaiting             // until the job is claimed, and again after it returns to the queue
	UniqueActive              // until it has ended
	UniquePeriod              // for PeriodMs from its creation, in whatever status

	NumScopes = iota
)

var scopeNames = [NumScopes]string{"", "waiting", "active", "period"}

// String returns the scope's name as used on the wire, "" for UniqueNone.
func (s UniqueScope) String() string { return NameOf(scopeNames[:], s) }

// ParseUniqueScope reads the text of UniqueScope.String; ok is false for any other text.
func ParseUniqueScope(name string) (s UniqueScope, ok bool) {
	return ParseName[UniqueScope](scopeNames[:], name)
}

// OnConflict is what an enqueue does if a waiting job holds its unique key.
type OnConflict uint8

// The choices.
const (
	ConflictKeep     OnConflict = iota // it is a duplicate
	ConflictReplace                    // the waiting job gets the fields of the new one
	ConflictDebounce                   // likewise, and it runs a while after the last enqueue

	NumConflicts = iota
)

var conflictNames = [NumConflicts]string{"keep", "replace", "debounce"}

// String returns the choice's name as used on the wire.
func (c OnConflict) String() string { return NameOf(conflictNames[:], c) }

var NoOptions Options

// Options returns the options of the job; never nil.
func (j *Job) Options() *Options {
	if j.Opt == nil {
		return &NoOptions
	}
	return j.Opt
}

func NameOf[K ~uint8](names []string, k K) string {
	if int(k) < len(names) {
		return names[k]
	}
	return ""
}

// ParseName returns the index of name in names; "" is no name.
func ParseName[K ~uint8](names []string, name string) (K, bool) {
	i := slices.Index(names, name)
	return K(max(i, 0)), i >= 0 && name != ""
}

// NewOptions returns the options of a new job, or nil if all are zero. They are copies, which do not keep a log entry in memory.
func NewOptions(n *fsmpb.NewJob, cron string) *Options {
	if n.Options == nil && cron == "" {
		return nil
	}
	o := optionsFromPB(cmp.Or(n.Options, &noOptionsPB))
	o.Group, o.Tags, o.Unique.Key = strings.Clone(o.Group), CloneStrings(Distinct(o.Tags)), strings.Clone(o.Unique.Key)
	o.After, o.AfterNames, o.AfterBatches = CloneStrings(Distinct(o.After)), CloneStrings(o.AfterNames), CloneStrings(Distinct(o.AfterBatches))
	o.Batch, o.Step, o.Cron, o.Account = strings.Clone(o.Batch), strings.Clone(o.Step), cron, ""
	o.Headers, o.Limits, o.Sequence, o.OnError = CloneHeaders(o.Headers), CloneStrings(o.Limits), strings.Clone(o.Sequence), onerror.Clone(o.OnError)
	if o.Zero() {
		return nil
	}
	return o
}

var noOptionsPB fsmpb.Options

func (o *Options) Zero() bool {
	return o.Backoff == (backoff.Backoff{}) && o.TimeoutMs == 0 && o.Group == "" && len(o.Tags) == 0 && o.Unique == (Unique{}) &&
		len(o.After) == 0 && o.AfterFailure == 0 && o.Batch == "" && o.Cron == "" && len(o.Headers) == 0 && o.Account == "" && len(o.Limits) == 0 && o.Sequence == "" &&
		o.StartBefore == 0 && o.RetainMs == 0 && len(o.OnError) == 0 && len(o.AfterNames) == 0 && len(o.AfterBatches) == 0 && o.Step == ""
}

var errRange = errors.New("a value is unknown or out of range")

// CheckOptions refuses options that no job can have.
func CheckOptions(o *Options) error {
	if o.Backoff.Kind >= backoff.NumKinds || o.Unique.Scope >= NumScopes || o.AfterFailure >= NumAfters {
		return errRange
	}
	if err := CheckAccount(o.Account); err != nil {
		return err
	}
	return cmp.Or(onerror.Check(o.OnError), CheckLimits(o.Limits), CheckHeaders(o.Headers))
}

// textBytes returns the bytes of the texts in the options of a job that count in quotas.
func (o *Options) TextBytes() int64 {
	if o == nil {
		return 0
	}
	n := len(o.Group) + len(o.Unique.Key) + len(o.Batch) + len(o.Sequence) + len(o.Step) + onerror.Size(o.OnError)
	for _, list := range [][]string{o.Tags, o.After, o.AfterNames, o.AfterBatches, o.Limits} {
		for _, text := range list {
			n += len(text)
		}
	}
	for _, h := range o.Headers {
		n += len(h.Name) + len(h.Value)
	}
	return int64(n)
}

// NewJob returns the new job from which a machine makes one like j. It counts in the account of j, without the
// limits of a quota. The machine refuses it if the jobs that j waits for, or its workflow batch, do not exist.
func (j *Job) NewJob() *fsmpb.NewJob {
	n := &fsmpb.NewJob{
		Id: j.ID, Type: j.Type, Payload: j.Payload(), Priority: j.Priority, RunAtMs: j.RunAt, LeaseMs: j.Execution().LeaseMs,
		Options: optionsToPB(j.Opt),
	}
	if j.MaxAttempts != MaxAttemptsUnset {
		n.MaxAttempts = &j.MaxAttempts
	}
	if o := n.Options; o != nil {
		if o.Account != "" {
			n.Quota = &fsmpb.Quota{Account: o.Account}
		}
		o.StartBeforeMs, o.Cron, o.Account = j.ExpiresAt(), "", ""
	}
	return n
}

// A header is a name and a value, UTF-8, that a producer gives to the worker, such as the context
// of a trace. The machine decides nothing by headers. They are not part of the content by which a
// repeated enqueue is recognised: a caller that repeats it has another trace.

// The limits of headers.
const (
	HeadersMax     = 16
	HeaderNameMax  = 64   // bytes
	HeadersSizeMax = 4096 // bytes of all names and values of a job
)

var errHeaders = errors.New("headers have invalid names, are not sorted, or are too many or too large")

// HeaderName reports whether a header may have that name: 1 to HeaderNameMax of the characters
// a to z, 0 to 9, "-", "_" and ".".
func HeaderName(name string) bool {
	return name != "" && len(name) <= HeaderNameMax && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.") == ""
}

// CheckHeaders refuses headers that no job can have.
func CheckHeaders(headers []*fsmpb.Header) error {
	size, last := 0, ""
	for _, h := range headers {
		if !HeaderName(h.GetName()) || h.Name <= last || !utf8.ValidString(h.Value) {
			return errHeaders
		}
		size, last = size+len(h.Name)+len(h.Value), h.Name
	}
	if len(headers) > HeadersMax || size > HeadersSizeMax {
		return errHeaders
	}
	return nil
}

// CloneHeaders copies the headers, which would keep a log entry in memory.
func CloneHeaders(headers []*fsmpb.Header) (out []*fsmpb.Header) {
	for _, h := range headers {
		out = append(out, &fsmpb.Header{Name: strings.Clone(h.GetName()), Value: strings.Clone(h.GetValue())})
	}
	return out
}

// NewSize returns the size of the job that n becomes, in bytes.
func NewSize(n *fsmpb.NewJob) int64 {
	o := n.Options
	if o == nil {
		return int64(len(n.Payload))
	}
	size := len(n.Payload) + len(o.Group) + len(o.GetUnique().GetKey()) + len(o.Batch) + len(o.Sequence) + len(o.Step) + onerror.Size(o.OnError)
	for _, list := range [][]string{Distinct(o.Tags), Distinct(o.After), o.AfterNames, Distinct(o.AfterBatches), o.Limits} {
		for _, text := range list {
			size += len(text)
		}
	}
	for _, h := range o.Headers {
		size += len(h.GetName()) + len(h.GetValue())
	}
	return int64(size)
}

// Distinct returns ids without repetitions.
func Distinct(ids []string) []string {
	for i, id := range ids {
		if slices.Contains(ids[:i], id) {
			out := slices.Clone(ids[:i])
			for _, id := range ids[i:] {
				if !slices.Contains(out, id) {
					out = append(out, id)
				}
			}
			return out
		}
	}
	return ids
}

// AttemptsOf returns Job.MaxAttempts for a limit of attempts, which may be absent.
func AttemptsOf(limit *int32) int32 {
	if limit == nil {
		return MaxAttemptsUnset
	}
	return *limit
}

// accountMax is the largest length of the name of an account, in bytes.
const accountMax = 128

var ErrAccount = fmt.Errorf("an account has a negative quota, or a name that is not UTF-8 or longer than %d bytes", accountMax)

func CheckAccount(name string) error {
	if len(name) > accountMax || !utf8.ValidString(name) {
		return ErrAccount
	}
	return nil
}

// Narrow converts v to T. A value that does not fit becomes the largest one, which the
// builder refuses as unknown.
func Narrow[T ~uint8](v uint32) T { return T(min(v, math.MaxUint8)) }

func CloneStrings(in []string) []string {
	out := slices.Clone(in)
	for i, s := range out {
		out[i] = strings.Clone(s)
	}
	return out
}

// Bounds of limits by key.
const (
	LimitsMax    = 8   // keys of a job
	LimitNameMax = 100 // bytes of a key or pattern
)

var ErrLimits = errors.New("a limit or pattern is empty, too long, or not UTF-8, or limits are not sorted or too many, or a number is negative")

// CheckLimits refuses limits that no job can have.
func CheckLimits(keys []string) error {
	for i, key := range keys {
		if !ValidKey(key) || i > 0 && keys[i-1] >= key {
			return ErrLimits
		}
	}
	if len(keys) > LimitsMax {
		return ErrLimits
	}
	return nil
}

// ValidKey reports whether the state or a caller can have the key.
func ValidKey(key string) bool {
	tenant, name, owned := strings.Cut(key, tenants.End)
	if !owned {
		tenant, name = "", key
	}
	return name != "" && len(name) <= LimitNameMax && utf8.ValidString(name) && !strings.Contains(name, "*") && tenants.Check(tenant) == nil
}

// ValidPattern reports whether a rule can have the pattern.
func ValidPattern(pattern string) bool {
	prefix, found := strings.CutSuffix(pattern, "*")
	if !found {
		return ValidKey(pattern)
	}
	return len(prefix) < LimitNameMax+tenants.Max+1 && (prefix == "" || strings.HasSuffix(prefix, tenants.End) || ValidKey(prefix))
}
