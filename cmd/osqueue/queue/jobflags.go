package queue

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/view"
)

// jobFlags are the flags that configure a job, shared by all commands that make jobs.
type jobFlags struct {
	flags       *pflag.FlagSet
	priority    int32
	maxAttempts int32
	lease       time.Duration
	timeout     time.Duration
	retain      time.Duration
	backoff     *client.Backoff
	onError     []string // CLASS=ACTION
	group       string
	tags        []string
	limits      []string
	sequence    string
	headers     []string // NAME=VALUE
	unique      client.Unique
	conflict    view.Conflict
	fields      []string
}

func (f *jobFlags) bind(flags *pflag.FlagSet) {
	f.flags = flags
	flags.Int32Var(&f.priority, "priority", 0, "higher first")
	flags.Var(view.From(&f.maxAttempts, 1), "max-attempts", "maximum number of attempts (default: its type's, then the server's)")
	view.SpanVar(flags, &f.lease, "lease", 0, "lease of a claim without heartbeats (default: its type's, then the server's)")
	view.SpanVar(flags, &f.timeout, "job-timeout", 0, "maximum run time of one attempt, also with heartbeats (default: its type's, or no limit)")
	view.SpanVar(flags, &f.retain, "retain", 0, "how long the job is kept after its end (default: its type's, then the server's)")
	flags.Var(view.Value(&f.backoff, "backoff", func(text string) (*client.Backoff, error) {
		b, err := view.ParseBackoff(text)
		return &b, err
	}, nil), "backoff", "wait after a failed attempt, as in exponential:1s:1h:20% (default: its type's, or none)")
	flags.StringArrayVar(&f.onError, "on-error", nil, "CLASS=dead or CLASS=retry[:30s], what follows a failure of a class, in place of the backoff; * is any, exit:3 an exit status; may be given several times")
	flags.StringVar(&f.group, "group", "", "tenant group; workers take the jobs of the groups in turn")
	flags.StringArrayVar(&f.tags, "tag", nil, "tag to search by; may be given several times")
	flags.StringArrayVar(&f.limits, "limit", nil, "key of a limit, such as customer:7, that must have room before the job starts; may be given several times")
	flags.StringVar(&f.sequence, "sequence", "", "name of a sequence: the job waits until all earlier jobs of it have ended")
	flags.StringArrayVar(&f.headers, "header", nil, "NAME=VALUE, a header that the worker gets with the job; may be given several times")
	flags.Var(view.Value(&f.unique, "key", f.readUnique, nil), "unique", "KEY[:SCOPE]: not while another job of the type holds that key; SCOPE is waiting, active or period:LENGTH. KEY:replace: a waiting job with the key gets the fields of this one. KEY:debounce:30s[:max=5m]: likewise, and it runs 30s after the last submit")
	flags.StringSliceVar(&f.fields, "unique-fields", nil, "members of the payload whose values make the key, in place of KEY: --unique-fields order,step")
}

func (f *jobFlags) check() error {
	for _, h := range f.headers {
		if name, _, ok := strings.Cut(h, "="); !ok || name == "" {
			return view.Usagef("--header %q: want NAME=VALUE", h)
		}
	}
	for _, text := range f.onError {
		if _, err := view.ParseOnError(text); err != nil {
			return view.Usagef("--on-error %w", err)
		}
	}
	return nil
}

// readUnique reads the flag --unique.
func (f *jobFlags) readUnique(text string) (u client.Unique, err error) {
	if text, f.conflict, err = view.CutConflict(text); err != nil {
		return u, err
	}
	if text == "" && f.conflict.Kind != "" { // of --unique-fields
		return u, nil
	}
	return view.ParseUnique(text)
}

// job returns a job with the values of the flags.
func (f *jobFlags) job() client.NewJob {
	job := client.NewJob{
		Priority: f.priority, Lease: f.lease, Timeout: f.timeout, Retain: f.retain, Backoff: f.backoff,
		Group: f.group, Tags: f.tags, Limits: f.limits, Sequence: f.sequence, Unique: f.unique,
		UniqueFields: f.fields, OnConflict: f.conflict.Kind, Debounce: f.conflict.Wait, DebounceMax: f.conflict.Max,
	}
	for _, h := range f.headers {
		if job.Headers == nil {
			job.Headers = make(map[string]string)
		}
		name, value, _ := strings.Cut(h, "=")
		job.Headers[name] = value
	}
	for _, text := range f.onError {
		rule, _ := view.ParseOnError(text) // check has read it
		job.OnError = append(job.OnError, rule)
	}
	if f.maxAttempts > 0 {
		job.MaxAttempts = &f.maxAttempts
	}
	return job
}

// override replaces values of the flags by values of a job on the wire.
func override(job client.NewJob, in v1.NewJob) client.NewJob {
	job.ID, job.Type, job.Payload = in.ID, in.Type, in.Payload
	job.Priority = cmp.Or(in.Priority, job.Priority)
	job.MaxAttempts = cmp.Or(in.MaxAttempts, job.MaxAttempts)
	job.Lease = cmp.Or(view.FromMs(in.LeaseMs), job.Lease)
	job.Timeout = cmp.Or(view.FromMs(in.TimeoutMs), job.Timeout)
	job.Retain = cmp.Or(view.FromMs(in.RetainMs), job.Retain)
	job.Group = cmp.Or(in.Group, job.Group)
	job.AfterFailure = cmp.Or(in.AfterFailure, job.AfterFailure)
	job.BatchID = cmp.Or(in.BatchID, job.BatchID)
	job.Sequence = cmp.Or(in.Sequence, job.Sequence)
	if in.RunAt != 0 || in.DelayMs != 0 {
		job.RunAt, job.Delay = time.Time{}, view.FromMs(in.DelayMs)
	}
	if in.RunAt != 0 {
		job.RunAt = time.UnixMilli(in.RunAt)
	}
	if in.StartBefore != 0 {
		job.StartBefore = time.UnixMilli(in.StartBefore)
	}
	if b := in.Backoff; b != nil {
		job.Backoff = &client.Backoff{Kind: b.Kind, Base: view.FromMs(b.BaseMs), Cap: view.FromMs(b.CapMs), Jitter: int(b.Jitter)}
	}
	if in.OnError != nil {
		job.OnError = nil
	}
	for _, r := range in.OnError {
		job.OnError = append(job.OnError, client.OnError{Class: r.Class, Dead: r.Action == v1.OnErrorDead, Delay: view.FromMs(r.DelayMs)})
	}
	if in.UniqueKey != "" || in.UniqueScope != "" {
		job.Unique = client.Unique{Key: in.UniqueKey, Scope: in.UniqueScope, Period: view.FromMs(in.UniqueMs)}
	}
	if in.UniqueFields != nil {
		job.UniqueFields = in.UniqueFields
	}
	if in.OnConflict != "" {
		job.OnConflict, job.Debounce, job.DebounceMax = in.OnConflict, view.FromMs(in.DebounceMs), view.FromMs(in.DebounceMaxMs)
	}
	if in.Tags != nil {
		job.Tags = in.Tags
	}
	if in.Limits != nil {
		job.Limits = in.Limits
	}
	if in.Headers != nil {
		job.Headers = in.Headers
	}
	if in.Artefacts != nil {
		job.Artefacts = in.Artefacts
	}
	if in.After != nil || in.AfterNames != nil {
		job.After, job.AfterNames = in.After, in.AfterNames
	}
	if in.AfterBatches != nil {
		job.AfterBatches = in.AfterBatches
	}
	job.Step = cmp.Or(in.Step, job.Step)
	return job
}

// payloadOf returns the payload that a flag gives, or nil if the flag is not given.
func payloadOf(flag, text string, plain bool) ([]byte, error) {
	if text == "" {
		return nil, nil
	}
	payload, err := asJSON([]byte(text), plain)
	if err != nil {
		return nil, view.Usagef("--%s %w", flag, err)
	}
	return payload, nil
}

// submitFlags are the flags of "osqueue submit". Those of "osqueue drop" are the part that works without a cluster.
type submitFlags struct {
	jobFlags
	kind         string
	typed        bool // a type is given, which may be ''
	id           string
	runAt        view.Time
	startBefore  view.Time
	delay        time.Duration
	after        []string
	afterBatches []string
	afterFailure string
	batch        string
	step         string
	key          string // idempotency key
	text         bool
	file         string
	payloadFile  string
	wait         bool
	waitFor      time.Duration
	keepOrder    bool
	quiet        bool
}

// arguments splits TYPE and PAYLOAD; usage is for the error if TYPE is missing. A nil
// payload means that the payload comes from stdin.
func (f *submitFlags) arguments(args []string, usage string) (payload *string, err error) {
	f.typed = f.flags.Changed("type")
	if !f.typed && len(args) > 0 {
		f.kind, f.typed, args = args[0], true, args[1:]
	}
	switch {
	case !f.typed && f.file == "":
		return nil, view.Usagef("TYPE is missing: give the type of the job, or '' for a job without type\nUsage: %s", usage)
	case len(args) > 1:
		return nil, view.Usagef("%q and %q: with --type only PAYLOAD may follow", args[0], args[1])
	case len(args) == 1 && f.file != "":
		return nil, view.Usagef("PAYLOAD and --file exclude each other")
	case len(args) == 1:
		return &args[0], nil
	}
	return nil, nil
}

// bindJob adds the flags of one job.
func (f *submitFlags) bindJob(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.kind, "type", "", "type of the jobs, which is also the name of their queue")
	view.SpanVar(flags, &f.delay, "delay", 0, "delay before the job may run, from the time at which the leader enqueues it")
	view.TimeVar(flags, &f.runAt, false, "run-at", "do not run it before: 2026-12-24T18:00:00Z, '2026-12-24 18:00' (local time), or 90m from now")
	view.TimeVar(flags, &f.startBefore, false, "start-before", "the job expires if no worker has claimed it by then; as --run-at")
	f.bind(flags)
	flags.StringArrayVar(&f.after, "after", nil, "id of a job that must complete first, or NAME=ID: the job gets its result under that name (an id that has a = needs a name); may be given several times")
	flags.StringArrayVar(&f.afterBatches, "after-batch", nil, "id of a batch of which all jobs must complete first; may be given several times")
	view.ChoiceVar(cmd, &f.afterFailure, "after-failure", "block, cancel, run or only, if a job of --after does not complete (default block)",
		v1.AfterBlock, v1.AfterCancel, v1.AfterRun, v1.AfterOnly)
	flags.BoolVar(&f.text, "text", false, "payloads are text, not JSON")
}

func (f *submitFlags) check() error {
	if err := f.jobFlags.check(); err != nil {
		return err
	}
	switch {
	case f.delay > 0 && f.runAt.Text != "":
		return view.Usagef("--delay and --run-at exclude each other")
	case f.unique.Key != "" && f.file != "":
		return view.Usagef("--unique is for one job; in a file of jobs give each line a uniqueKey of its own")
	case f.payloadFile != "" && f.file != "":
		return view.Usagef("--payload-file is for one job; submit the jobs one by one")
	case f.payloadFile != "" && f.key != "":
		return view.Usagef("--payload-file and --idempotency-key exclude each other, because each command uploads the file again; give --id")
	case f.text && f.file != "" && !f.typed:
		return view.Usagef("--text with --file needs a type: the lines are payloads then")
	}
	return nil
}

// job returns a job with the values of the flags.
func (f *submitFlags) job(payload []byte) client.NewJob {
	job := f.jobFlags.job()
	job.ID, job.Type, job.Payload = f.id, f.kind, payload
	job.RunAt, job.Delay, job.StartBefore = f.runAt.At, f.delay, f.startBefore.At
	job.After, job.AfterNames = named(f.after)
	job.AfterBatches, job.AfterFailure, job.BatchID, job.Step = f.afterBatches, f.afterFailure, f.batch, f.step
	return job
}

// named returns the ids, and the names if one has a name, of values like NAME=ID.
func named(values []string) (ids, names []string) {
	any := false
	for _, v := range values {
		name, id, found := strings.Cut(v, "=")
		if !found {
			name, id = v, v
		}
		any = any || found
		ids, names = append(ids, id), append(names, name)
	}
	if !any {
		return ids, nil
	}
	return ids, names
}

// withKey adds an idempotency key to the writes of ctx, if there is one.
func withKey(ctx context.Context, key string) context.Context {
	if key == "" {
		return ctx
	}
	return client.WithIdempotencyKey(ctx, key)
}

// notePast warns if the time to run is in the past: such a job runs at once.
func notePast(g *view.Globals, runAt view.Time) error {
	if runAt.Text == "" || !runAt.At.Before(time.Now().Add(-time.Second)) {
		return nil
	}
	return view.WritePlain(g.Err, fmt.Sprintf("warning: --run-at %s is in the past (%s): the job runs at once\n",
		runAt.Text, view.LocalTime(runAt.At.UnixMilli())))
}
