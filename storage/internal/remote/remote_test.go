package remote

import (
	"context"
	"errors"
	"io"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"osqueue/storage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func parse(raw string) (Location, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return Location{}, err
	}
	return ParseLocation(u, "endpoint", "region")
}

func TestParseLocation(t *testing.T) {
	for raw, want := range map[string]string{
		"s3://b":                               "b||",
		"s3://b/":                              "b||",
		"s3://b/p":                             "b|p/|",
		"s3://b/p/q/":                          "b|p/q/|",
		"s3://my_bucket?region=eu-1":           "my_bucket||",
		"gs://b/p?endpoint=http://127.0.0.1:9": "b|p/|http://127.0.0.1:9",
		"s3://b?endpoint=https%3A%2F%2Fs3.example.com%2Fx": "b||https://s3.example.com/x",
	} {
		l, err := parse(raw)
		if got := l.Bucket + "|" + l.Prefix + "|" + l.Params["endpoint"]; err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", raw, got, err, want)
		}
	}
}

func TestParseLocationRefuses(t *testing.T) {
	for raw, hint := range map[string]string{
		"s3:///prefix":                        "write s3://BUCKET",
		"s3:bucket":                           "write s3://BUCKET",
		"s3://b:9000/p":                       "?endpoint=http://HOST:PORT",
		"s3://key:secret@b":                   "must not contain credentials",
		"s3://b#x":                            "fragment",
		"s3://b/a//b":                         "single slashes",
		"s3://b/../c":                         "begins with a dot",
		"s3://b?endpoint=localhost:9000":      "endpoint=http://HOST:PORT",
		"s3://b?endpoint=":                    "exactly one value",
		"s3://b?region=a&region=b":            "exactly one value",
		"s3://b?regoin=eu":                    "use endpoint, region",
		"s3://b?endpoint=http://u:p@h":        "a scheme, a host and a path only",
		"s3://b?a=%zz":                        "cannot be parsed",
		"s3://b/" + strings.Repeat("p/", 250): "at most 400",
	} {
		_, err := parse(raw)
		if err == nil || !strings.Contains(err.Error(), hint) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want a hint %q", raw, err, hint)
		}
	}
}

func FuzzParseLocation(f *testing.F) {
	for _, seed := range []string{"s3://b/p?endpoint=http://h:1", "gs://b", "://", "s3://b/%2e%2e/x", "s3://b?region=%00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		l, err := parse(raw)
		if err != nil {
			return
		}
		if l.Bucket == "" || l.Prefix != "" && !strings.HasSuffix(l.Prefix, "/") || len(l.Name("")) > maxPrefixBytes+1 {
			t.Fatalf("%q gave %+v", raw, l)
		}
		if key, ok := l.Key(l.Name("queue.json")); !ok || key != "queue.json" {
			t.Fatalf("%q: key came back as %q", raw, key)
		}
	})
}

func TestIdleEndsOnlyWithoutProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := NewIdle(t.Context(), time.Minute)
		defer i.Stop()
		for range 5 {
			time.Sleep(59 * time.Second)
			i.Moved()
		}
		i.Pause()
		time.Sleep(time.Hour)
		if i.Err() != nil {
			t.Fatalf("ended during progress or a pause: %v", i.Err())
		}
		i.Moved()
		time.Sleep(time.Minute + 1)
		err := i.Explain(i.Err())
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			t.Fatalf("after a minute of nothing: %v", err)
		}
	})
}

func TestIdleLeavesOtherErrorsAlone(t *testing.T) {
	parent, cancel := context.WithCancel(t.Context())
	i := NewIdle(parent, time.Minute)
	defer i.Stop()
	cancel()
	if err := i.Explain(i.Err()); !errors.Is(err, context.Canceled) {
		t.Fatalf("cancelled by the caller: %v", err)
	}
	if i.Explain(nil) != nil {
		t.Fatal("an error out of nothing")
	}
}

func TestReadBody(t *testing.T) {
	i := NewIdle(t.Context(), time.Minute)
	defer i.Stop()
	for _, size := range []int64{5, -1} {
		if data, err := ReadBody(i, strings.NewReader("12345"), size); err != nil || string(data) != "12345" {
			t.Errorf("size %d: %q, %v", size, data, err)
		}
	}
	for _, size := range []int64{4, 6} {
		if _, err := ReadBody(i, strings.NewReader("12345"), size); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("5 bytes announced as %d: %v", size, err)
		}
	}
	if _, err := ReadBody(i, strings.NewReader(""), storage.MaxObjectBytes+1); err == nil {
		t.Error("took an object that is too large")
	}
}

// The time in which nobody reads a body does not count as idle, and a body that is here ends with its context.
func TestBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithCancel(t.Context())
		b := NewBody(NewIdle(parent, time.Minute), io.NopCloser(strings.NewReader("12345")), 4)
		p := make([]byte, 2)
		for _, want := range []string{"12", "34"} {
			time.Sleep(time.Hour)
			if n, err := b.Read(p); err != nil || string(p[:n]) != want {
				t.Fatalf("%q, %v", p[:n], err)
			}
		}
		if n, err := b.Read(p); n != 0 || err != io.EOF { //nolint:errorlint // io.Reader's contract
			t.Errorf("behind the end: %d, %v", n, err)
		}
		short := NewBody(NewIdle(parent, time.Minute), io.NopCloser(strings.NewReader("123")), 4)
		if data, err := io.ReadAll(short); string(data) != "123" || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("a body that is cut: %q, %v", data, err)
		}
		slow, w := io.Pipe()
		stuck := NewBody(NewIdle(parent, time.Minute), slow, 4)
		context.AfterFunc(stuck.idle, func() { w.CloseWithError(stuck.idle.Err()) }) // as a transport does
		if _, err := stuck.Read(p); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			t.Errorf("a body that does not come: %v", err)
		}
		here := NewBody(NewIdle(parent, time.Minute), io.NopCloser(strings.NewReader("12345")), 5)
		cancel()
		if n, err := here.Read(p); n != 0 || !errors.Is(err, context.Canceled) {
			t.Errorf("after the end of the context: %d, %v", n, err)
		}
		for _, b := range []*Body{b, short, stuck, here} {
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}
