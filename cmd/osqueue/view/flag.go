package view

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
)

// flagValue is the value of a flag, in a notation of its own.
type flagValue[T any] struct {
	to    *T
	kind  string
	parse func(string) (T, error)
	text  func(T) string
}

// Value returns the value of a flag that parse reads. kind names it in the help, and text, which may be nil,
// shows its default, which to has already.
func Value[T any](to *T, kind string, parse func(string) (T, error), text func(T) string) pflag.Value {
	return &flagValue[T]{to: to, kind: kind, parse: parse, text: text}
}

// String implements pflag.Value.
func (f *flagValue[T]) String() string {
	if f.text == nil {
		return ""
	}
	return f.text(*f.to)
}

// Set implements pflag.Value.
func (f *flagValue[T]) Set(text string) error {
	v, err := f.parse(text)
	if err == nil {
		*f.to = v
	}
	return err
}

// Type implements pflag.Value.
func (f *flagValue[T]) Type() string { return f.kind }

// Span is the value of a flag that is a length of time; 0 is none.
func Span(to *time.Duration) pflag.Value { return SpanFrom(to, 0) }

// SpanFrom is Span with a least value.
func SpanFrom(to *time.Duration, least time.Duration) pflag.Value {
	return Value(to, "duration", func(text string) (time.Duration, error) {
		d, err := ParseSpan(text)
		return d, cmp.Or(err, tooSmall(d, least))
	}, func(d time.Duration) string {
		if d == 0 {
			return ""
		}
		return SpanText(d)
	})
}

// tooSmall returns an error for a value below least.
func tooSmall[N ~int | ~int32 | ~int64](n, least N) error {
	switch {
	case n >= least:
		return nil
	case least == 1:
		return errors.New("must be positive")
	}
	return fmt.Errorf("must be at least %v", least)
}

// SpanVar binds a flag whose value is a length of time.
func SpanVar(flags *pflag.FlagSet, to *time.Duration, name string, value time.Duration, help string) {
	*to = value
	flags.Var(Span(to), name, help)
}

// PositiveVar binds a flag whose value is a length of time that is not 0.
func PositiveVar(flags *pflag.FlagSet, to *time.Duration, name string, value time.Duration, help string) {
	*to = value
	flags.Var(SpanFrom(to, 1), name, help)
}

// Ms is the value of a flag that is a length of time, in the milliseconds of the wire, and not 0.
func Ms(to *int64) pflag.Value {
	return Value(to, "duration", func(text string) (int64, error) {
		d, err := ParseSpan(text)
		return d.Milliseconds(), cmp.Or(err, tooSmall(d.Milliseconds(), 1))
	}, MsText)
}

// Size is the value of a flag that is a number of bytes.
func Size[N ~int | ~int64](to *N) pflag.Value {
	return Value(to, "size", func(text string) (N, error) {
		n, err := ParseSize(text)
		return N(n), err
	}, func(n N) string { return strconv.FormatInt(int64(n), 10) })
}

// Time is a point in time that a flag gives.
type Time struct {
	At   time.Time
	Text string // as it was given; "": the flag was not given
}

// TimeVar binds a flag whose value is a point in time. A duration counts from now: forwards, or backwards if
// past is set.
func TimeVar(flags *pflag.FlagSet, to *Time, past bool, name, help string) {
	flags.Var(Value(to, "time", func(text string) (Time, error) {
		at, err := ParseTime(text, past, time.Now())
		return Time{At: at, Text: text}, err
	}, nil), name, help)
}

// Choice is the value of a flag that is one of some words, or its default.
func Choice(to *string, words ...string) pflag.Value {
	initial := *to
	return Value(to, "string", func(text string) (string, error) {
		if text != initial && !slices.Contains(words, text) {
			return "", errors.New("use " + strings.Join(words, ", "))
		}
		return text, nil
	}, func(text string) string { return text })
}

// ChoiceVar binds a flag whose value is one of some words, which the shell offers.
func ChoiceVar(cmd *cobra.Command, to *string, name, help string, words ...string) {
	cmd.Flags().Var(Choice(to, words...), name, help)
	CompleteFlag(cmd, name, words...)
}

// From is the value of a flag that is a whole number, at least least.
func From[N ~int | ~int32 | ~int64](to *N, least N) pflag.Value {
	return number(to, func(n N) error { return tooSmall(n, least) })
}

// Between is the value of a flag that is a whole number, at least least and at most most.
func Between[N ~int | ~int32 | ~int64](to *N, least, most N) pflag.Value {
	return number(to, func(n N) error {
		if n < least || n > most {
			return fmt.Errorf("must lie between %d and %d", least, most)
		}
		return nil
	})
}

func number[N ~int | ~int32 | ~int64](to *N, check func(N) error) pflag.Value {
	return Value(to, "int", func(text string) (N, error) {
		n, err := strconv.ParseInt(text, 0, 64)
		switch {
		case errors.Is(err, strconv.ErrRange) || err == nil && int64(N(n)) != n:
			return 0, errors.New("the number is too large")
		case err != nil:
			return 0, errors.New("write a whole number")
		}
		return N(n), check(N(n))
	}, func(n N) string { return strconv.FormatInt(int64(n), 10) })
}

// BindStatuses binds --status with the statuses that the command knows.
func BindStatuses(cmd *cobra.Command, to *[]string, known []string) {
	names := StatusWords(known)
	cmd.Flags().Var(Value(to, "statuses", ParseStatuses(to, known), nil), "status", "only "+strings.Join(names, ", ")+", several with commas, or all")
	CompleteFlag(cmd, "status", append([]string{v1.StatusAll}, names...)...)
}

// Filter choose jobs, for lists and for changes.
type Filter struct {
	Status  []string
	Type    string
	Tags    []string // jobs have all of them
	Group   string
	Worker  string
	Batch   string
	Created struct{ After, Before Time }
	Limit   int
	All     bool
}

// Bind adds the flags; without a status flag where the statuses are given.
func (f *Filter) Bind(cmd *cobra.Command, withStatus bool) {
	flags := cmd.Flags()
	if withStatus {
		BindStatuses(cmd, &f.Status, AllStatuses)
	}
	flags.StringVar(&f.Type, "type", "", "only jobs of this type")
	flags.StringArrayVar(&f.Tags, "tag", nil, "only jobs with this tag; several tags: only jobs with all of them")
	flags.StringVar(&f.Group, "group", "", "only jobs of this group")
	flags.StringVar(&f.Worker, "worker", "", "only jobs whose last attempt this worker runs or ran")
	flags.StringVar(&f.Batch, "batch", "", "only jobs of this batch")
	TimeVar(flags, &f.Created.After, true, "created-after", "only jobs created at that time or later: 2026-12-24T18:00:00Z, '2026-12-24 18:00' (local time), or 90m (ago)")
	TimeVar(flags, &f.Created.Before, true, "created-before", "only jobs created before that time")
}

// Named reports whether the filter names more than statuses.
func (f *Filter) Named() bool {
	return len(f.Tags) > 0 || f.Type+f.Group+f.Worker+f.Batch+f.Created.After.Text+f.Created.Before.Text != ""
}

// List is the filter for a list.
func (f *Filter) List() client.ListOptions {
	return client.ListOptions{
		Statuses: f.Status, Type: f.Type, Tags: f.Tags, Group: f.Group, Worker: f.Worker, BatchID: f.Batch,
		CreatedFrom: f.Created.After.At, CreatedBefore: f.Created.Before.At,
	}
}

// Change is the filter for a change of the jobs of these statuses. They are
// always named, so that All is not needed. It has one tag at most: jobs with several are
// listed, and changed by their ids.
func (f *Filter) Change(statuses []string) client.Filter {
	tag := ""
	if len(f.Tags) == 1 {
		tag = f.Tags[0]
	}
	return client.Filter{
		Statuses: statuses, Type: f.Type, Tag: tag, Group: f.Group, BatchID: f.Batch, Worker: f.Worker,
		CreatedFrom: f.Created.After.At, CreatedBefore: f.Created.Before.At, Limit: f.Limit,
	}
}
