package storagetest

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"osqueue/storage"
	"osqueue/storage/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// brokenEnv names the broken bucket that a child process runs the suite on.
const brokenEnv = "OSQUEUE_STORAGETEST_BROKEN"

// broken breaks one promise of a good bucket.
type broken struct {
	*mem.Bucket
	how string
}

func (b broken) Get(ctx context.Context, key string) (storage.Object, error) {
	if b.how == "ignores-context" {
		ctx = context.WithoutCancel(ctx)
	}
	o, err := b.Bucket.Get(ctx, key)
	switch {
	case b.how == "no-such-error" && err != nil:
		return storage.Object{}, nil
	case b.how == "short-reads" && len(o.Data) > 1<<20:
		o.Data = o.Data[:1<<20]
	case b.how == "repeats-versions" && err == nil:
		o.Version = storage.Version(o.Data)
	}
	return o, err
}

func (b broken) PutIfAbsent(ctx context.Context, key string, data []byte) storage.Write {
	switch b.how {
	case "ignores-absent":
		return b.overwrite(ctx, key, data)
	case "any-key":
		if storage.ValidateKey(key) != nil {
			return storage.Write{Outcome: storage.Committed, Version: "1"}
		}
	}
	return b.tag(data, b.Bucket.PutIfAbsent(ctx, key, data))
}

func (b broken) PutIfMatch(ctx context.Context, key string, data []byte, v storage.Version) storage.Write {
	o, err := b.Bucket.Get(ctx, key)
	switch {
	case b.how == "ignores-match" && err == nil:
		return b.overwrite(ctx, key, data)
	case b.how == "checks-first" && err == nil && o.Version == v:
		time.Sleep(time.Millisecond) // widens the gap that the suite has to find
		return b.overwrite(ctx, key, data)
	case b.how == "match-creates" && err != nil:
		return b.Bucket.PutIfAbsent(ctx, key, data)
	case b.how == "conflict-as-unknown" && o.Version != v:
		return storage.Write{Err: storage.ErrNotFound}
	case b.how == "repeats-versions" && err == nil && string(v) == string(o.Data):
		v = o.Version
	}
	return b.tag(data, b.Bucket.PutIfMatch(ctx, key, data, v))
}

// tag makes the version a function of the content.
func (b broken) tag(data []byte, w storage.Write) storage.Write {
	if b.how == "repeats-versions" && w.Outcome == storage.Committed {
		w.Version = storage.Version(data)
	}
	return w
}

func (b broken) overwrite(ctx context.Context, key string, data []byte) storage.Write {
	for {
		if o, err := b.Bucket.Get(ctx, key); err != nil {
			return b.Bucket.PutIfAbsent(ctx, key, data)
		} else if w := b.Bucket.PutIfMatch(ctx, key, data, o.Version); w.Outcome == storage.Committed {
			return w
		}
	}
}

func (b broken) List(ctx context.Context, prefix string, fn func(storage.Info) bool) error {
	switch b.how {
	case "lists-everything":
		prefix = ""
	case "never-stops":
		return b.Bucket.List(ctx, prefix, func(i storage.Info) bool { fn(i); return true })
	case "unsorted":
		var infos []storage.Info
		err := b.Bucket.List(ctx, prefix, func(i storage.Info) bool { infos = append(infos, i); return true })
		slices.Reverse(infos)
		for _, i := range infos {
			if !fn(i) {
				break
			}
		}
		return err
	}
	return b.Bucket.List(ctx, prefix, fn)
}

func (b broken) Delete(ctx context.Context, key string) error {
	if b.how == "keeps-deleted" {
		return nil
	}
	return b.Bucket.Delete(ctx, key)
}

func (b broken) PutStream(ctx context.Context, key string, r io.Reader, c storage.Content) storage.Write {
	switch b.how {
	case "stream-overwrites":
		if err := b.Bucket.Delete(ctx, key); err != nil {
			return storage.Write{Err: err}
		}
	case "stream-keeps-cut", "stream-believes":
		data, err := io.ReadAll(io.LimitReader(r, c.Size))
		if err == nil || b.how == "stream-keeps-cut" {
			b.Bucket.PutIfAbsent(ctx, key, data)
		}
		r = bytes.NewReader(data)
	}
	return b.Bucket.PutStream(ctx, key, r, c)
}

func (b broken) GetRange(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	switch b.how {
	case "range-too-long":
		length++
	case "range-of-nothing":
		if body, err := b.Bucket.GetRange(ctx, key, offset, length); err == nil {
			return body, nil
		}
		return io.NopCloser(strings.NewReader("")), nil
	case "range-ignores-context":
		if ctx.Err() == nil {
			ctx = context.WithoutCancel(ctx)
		}
	}
	return b.Bucket.GetRange(ctx, key, offset, length)
}

func (b broken) Stat(ctx context.Context, key string) (storage.Stat, error) {
	st, err := b.Bucket.Stat(ctx, key)
	if b.how == "stat-of-another" && err == nil {
		st.Sum = &storage.Sum{}
	}
	return st, err
}

// TestBroken runs only in the children of TestSuiteCatches.
func TestBroken(t *testing.T) {
	how := os.Getenv(brokenEnv)
	if how == "" {
		t.Skip("runs in a child process of TestSuiteCatches only")
	}
	Run(t, func(*testing.T) storage.Bucket { return broken{mem.New(), how} })
}

// TestSuiteCatches checks that the suite fails on each broken bucket, in the
// test that is there for it.
func TestSuiteCatches(t *testing.T) {
	for how, caught := range map[string]string{
		"":                    "",
		"ignores-absent":      "CreateOnce",
		"ignores-match":       "StaleVersion",
		"checks-first":        "OneReplacerWins",
		"match-creates":       "ForeignVersion",
		"conflict-as-unknown": "StaleVersion",
		"no-such-error":       "GetAbsent",
		"short-reads":         "Contents",
		"repeats-versions":    "SameBytesAgain",
		"any-key":             "BadKeys",
		"ignores-context":     "EndedContext",
		"lists-everything":    "List",
		"never-stops":         "ListStops",
		"unsorted":            "ListOrder",
		"keeps-deleted":       "Delete",

		"stream-overwrites":     "StreamsCreate",
		"stream-keeps-cut":      "StreamsCut",
		"stream-believes":       "StreamsCut",
		"range-too-long":        "Streams",
		"range-of-nothing":      "StreamsCreate",
		"range-ignores-context": "StreamsEnd",
		"stat-of-another":       "Streams",
	} {
		t.Run(how, func(t *testing.T) {
			if how == "" {
				how = "not at all"
			}
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestBroken$/^("+caught+"|Model)$", "-rapid.nofailfile")
			if caught == "" {
				cmd.Args[1] = "-test.run=^TestBroken$"
			}
			cmd.Env = append(os.Environ(), brokenEnv+"="+how)
			out, err := cmd.CombinedOutput()
			failed := bytes.Contains(out, []byte("--- FAIL: TestBroken/"+caught+" "))
			if caught == "" && err != nil || caught != "" && (err == nil || !failed) {
				t.Errorf("want a failure of %q; %v\n%s", caught, err, lastLines(out))
			}
		})
	}
}

func lastLines(out []byte) string {
	lines := strings.Split(string(out), "\n")
	return strings.Join(lines[max(0, len(lines)-12):], "\n")
}
