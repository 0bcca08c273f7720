package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"osqueue/client"
)

// textError is an error whose nil pointer is one, too, until it is asked for its text.
type textError struct{ text string }

func (e *textError) Error() string { return e.text }

func TestHowHandlersFail(t *testing.T) {
	boom := errors.New("boom")
	cases := map[string]struct {
		fn        HandlerFunc
		text      string
		permanent bool
		delay     time.Duration
	}{
		"error":     {fn: func(context.Context, Job) (json.RawMessage, error) { return nil, boom }, text: "boom"},
		"permanent": {fn: func(context.Context, Job) (json.RawMessage, error) { return nil, Permanent(boom) }, text: "boom", permanent: true},
		"retry after": {fn: func(context.Context, Job) (json.RawMessage, error) {
			return nil, fmt.Errorf("x: %w", RetryAfter(time.Hour, boom))
		}, text: "x: boom", delay: time.Hour},
		"panic":      {fn: func(context.Context, Job) (json.RawMessage, error) { panic("at the disco") }, text: "handler_test.go"},
		"long panic": {fn: func(context.Context, Job) (json.RawMessage, error) { panic(strings.Repeat("x", 1<<20)) }, text: "handler_test.go"},
		"exit":       {fn: func(context.Context, Job) (json.RawMessage, error) { runtime.Goexit(); return nil, nil }, text: errExit.Error()},
		"exit at":    {fn: func(context.Context, Job) (json.RawMessage, error) { runtime.Goexit(); return nil, nil }, text: "handler_test.go"},
		"nil pointer": {
			fn:   func(context.Context, Job) (json.RawMessage, error) { return nil, (*textError)(nil) },
			text: "nil pointer",
		},
		"not JSON": {fn: func(context.Context, Job) (json.RawMessage, error) { return json.RawMessage("{"), nil }, text: "JSON", permanent: true},
		"payload": {
			fn:   JSON(func(_ context.Context, _ Job, in struct{ N int }) (int, error) { return in.N, nil }),
			text: "payload", permanent: true,
		},
		"long text": {fn: func(context.Context, Job) (json.RawMessage, error) {
			return nil, errors.New(strings.Repeat("é", maxErrorText) + "\xff")
		}, text: "é"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			result, err := call(t.Context(), c.fn, Job{ClaimedJob: client.ClaimedJob{Payload: json.RawMessage("[]")}})
			r := decide(nil, result, err)
			if r.outcome != Failed || !strings.Contains(r.failure.Error, c.text) {
				t.Fatalf("%+v", r)
			}
			if r.failure.Permanent != c.permanent || r.failure.Delay != c.delay {
				t.Fatalf("%+v", r.failure)
			}
			if len(r.failure.Error) > maxErrorText+8 {
				t.Fatalf("%d bytes", len(r.failure.Error))
			}
		})
	}
	if Permanent(nil) != nil || RetryAfter(time.Second, nil) != nil {
		t.Error("no error became one")
	}
}

func TestTypedHandler(t *testing.T) {
	type in struct {
		A, B int
	}
	fn := JSON(func(_ context.Context, _ Job, x in) (map[string]int, error) {
		return map[string]int{"sum": x.A + x.B}, nil
	})
	got, err := fn(t.Context(), Job{ClaimedJob: client.ClaimedJob{Payload: json.RawMessage(`{"A":1,"B":2}`)}})
	if err != nil || string(got) != `{"sum":3}` {
		t.Fatalf("%s, %v", got, err)
	}
}

// TestTypedHandlerReadsAsEncodingJSON: names match in any case, and a nil list is null.
func TestTypedHandlerReadsAsEncodingJSON(t *testing.T) {
	type order struct {
		Order int
		Mail  string `json:"mail_to"`
	}
	type shipped struct {
		Text string
		List []int
	}
	fn := JSON(func(_ context.Context, _ Job, o order) (shipped, error) {
		return shipped{Text: fmt.Sprintf("<%d> to %s", o.Order, o.Mail)}, nil
	})
	got, err := fn(t.Context(), Job{ClaimedJob: client.ClaimedJob{Payload: json.RawMessage(`{"order": 25626, "Mail_To": "you"}`)}})
	if want := `{"Text":"<25626> to you","List":null}`; err != nil || string(got) != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
}

// Text that is not Unicode becomes U+FFFD, in a payload and in a result, so that
// finished work is not lost.
func TestTypedHandlerOfOddText(t *testing.T) {
	fn := JSON(func(_ context.Context, _ Job, x string) ([]string, error) { return []string{x, "a\xffb"}, nil })
	got, err := fn(t.Context(), Job{ClaimedJob: client.ClaimedJob{Payload: json.RawMessage(`"\ud800"`)}})
	if want := "[\"\ufffd\",\"a\\ufffdb\"]"; err != nil || string(got) != want || !json.Valid(got) {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
}
