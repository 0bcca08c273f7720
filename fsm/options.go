package fsm

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"osqueue/fsm/backoff"
	"osqueue/fsm/fsmpb"
)

// An optional field of a job is in this file, in Options and in the functions that copy, compare, check and count it, and
// in jobpb.go.

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
	Batch        string          // id of the batch that it belongs to
	Cron         string          // name of the schedule that enqueued it
	Headers      []*fsmpb.Header // sorted by name
	Account      string          // in which it counts (account.go); "": none
	Limits       []string        // keys of which each must have room, sorted
	Sequence     string          // its jobs run one after another; "": none
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

	numScopes = iota
)

var scopeNames = [numScopes]string{"", "waiting", "active", "period"}

// String returns the scope's name as used on the wire, "" for UniqueNone.
func (s UniqueScope) String() string { return nameOf(scopeNames[:], s) }

// ParseUniqueScope reads the text of UniqueScope.String; ok is false for any other text.
func ParseUniqueScope(name string) (s UniqueScope, ok bool) {
	return parseName[UniqueScope](scopeNames[:], name)
}

// AfterFailure is the effect on a waiting job if a job that it waits for dies or is
// cancelled.
type AfterFailure uint8

// The choices. Snapshots have these numbers: they must not change.
const (
	AfterBlock  AfterFailure = iota // it keeps waiting: the other job may be retried
	AfterCancel                     // it is cancelled
	AfterRun                        // it stops waiting for that job

	numAfters = iota
)

var afterNames = [numAfters]string{"block", "cancel", "run"}

// String returns the choice's name as used on the wire.
func (a AfterFailure) String() string { return nameOf(afterNames[:], a) }

var noOptions Options

// Options returns the options of the job; never nil.
func (j *Job) Options() *Options {
	if j.Opt == nil {
		return &noOptions
	}
	return j.Opt
}

func nameOf[K ~uint8](names []string, k K) string {
	if int(k) < len(names) {
		return names[k]
	}
	return ""
}

// parseName returns the index of name in names; "" is no name.
func parseName[K ~uint8](names []string, name string) (K, bool) {
	i := slices.Index(names, name)
	return K(max(i, 0)), i >= 0 && name != ""
}

// newOptions returns the options of a new job, or nil if all are zero.
func newOptions(n *fsmpb.NewJob, cron string) *Options {
	if n.Backoff == nil && n.TimeoutMs == 0 && n.Group == "" && len(n.Tags) == 0 && n.Unique == nil &&
		len(n.After) == 0 && n.AfterFailure == 0 && n.Batch == "" && cron == "" && len(n.Headers) == 0 && len(n.Limits) == 0 && n.Sequence == "" {
		return nil
	}
	o := &Options{
		Backoff: backoff.FromPB(n.Backoff), TimeoutMs: n.TimeoutMs, Group: strings.Clone(n.Group),
		Tags: cloneStrings(distinct(n.Tags)), Unique: uniqueFromPB(n.Unique), After: cloneStrings(distinct(n.After)),
		AfterFailure: narrow[AfterFailure](n.AfterFailure), Batch: strings.Clone(n.Batch), Cron: cron,
		Headers: cloneHeaders(n.Headers), Limits: cloneStrings(n.Limits), Sequence: strings.Clone(n.Sequence),
	}
	o.Unique.Key = strings.Clone(o.Unique.Key)
	if o.zero() {
		return nil
	}
	return o
}

func (o *Options) zero() bool {
	return o.Backoff == (backoff.Backoff{}) && o.TimeoutMs == 0 && o.Group == "" && len(o.Tags) == 0 && o.Unique == (Unique{}) &&
		len(o.After) == 0 && o.AfterFailure == 0 && o.Batch == "" && o.Cron == "" && len(o.Headers) == 0 && o.Account == "" && len(o.Limits) == 0 && o.Sequence == ""
}

func checkOptions(o *Options) error {
	if o.Backoff.Kind >= backoff.NumKinds || o.Unique.Scope >= numScopes || o.AfterFailure >= numAfters {
		return errRange
	}
	if err := checkAccount(o.Account); err != nil {
		return err
	}
	return cmp.Or(checkLimits(o.Limits), checkHeaders(o.Headers))
}

// textBytes returns the bytes of the texts in the options of a job that count in quotas.
func (o *Options) textBytes() int64 {
	if o == nil {
		return 0
	}
	n := len(o.Group) + len(o.Unique.Key) + len(o.Batch) + len(o.Sequence)
	for _, list := range [][]string{o.Tags, o.After, o.Limits} {
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
	o := optionsToPB(j.Options())
	n := &fsmpb.NewJob{
		Id: j.ID, Type: j.Type, Payload: j.Payload(), Priority: j.Priority, RunAtMs: j.RunAt, LeaseMs: j.Execution().LeaseMs,
		Backoff: o.Backoff, TimeoutMs: o.TimeoutMs, Group: o.Group, Tags: o.Tags, Unique: o.Unique, After: o.After,
		AfterFailure: o.AfterFailure, Batch: o.Batch, Headers: o.Headers, Limits: o.Limits, Sequence: o.Sequence,
	}
	if j.MaxAttempts != MaxAttemptsUnset {
		n.MaxAttempts = &j.MaxAttempts
	}
	if o.Account != "" {
		n.Quota = &fsmpb.Quota{Account: o.Account}
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

// checkHeaders refuses headers that no job can have.
func checkHeaders(headers []*fsmpb.Header) error {
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

// cloneHeaders copies the headers, which would keep a log entry in memory.
func cloneHeaders(headers []*fsmpb.Header) (out []*fsmpb.Header) {
	for _, h := range headers {
		out = append(out, &fsmpb.Header{Name: strings.Clone(h.GetName()), Value: strings.Clone(h.GetValue())})
	}
	return out
}
