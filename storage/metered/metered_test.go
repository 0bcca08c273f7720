package metered_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"osqueue/internal/storagetest"
	"osqueue/internal/storagetest/fault"
	"osqueue/storage"
	"osqueue/storage/mem"
	"osqueue/storage/metered"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	storagetest.Run(t, func(*testing.T) storage.Bucket {
		return metered.New(mem.New(), func(metered.Observation) {})
	})
}

func TestObservations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got string
		faulty := fault.New(mem.New(), 1)
		b := metered.New(faulty, func(o metered.Observation) {
			got += fmt.Sprintf("%s %s %s %d %v\n", o.Op, o.Key, o.Result, o.Bytes, o.Duration)
			if bad := o.Result == metered.Unknown || o.Result == metered.Failed; bad && !errors.Is(o.Err, fault.ErrInjected) {
				t.Errorf("%s %s: error %v", o.Op, o.Result, o.Err)
			}
		})
		ctx := t.Context()
		hit := func(kind fault.Kind, delay time.Duration) {
			faulty.Inject(fault.Rule{Kind: kind, Times: 1, Delay: delay})
		}
		hit(fault.Slow, 3*time.Second)
		v := b.PutIfAbsent(ctx, "k", []byte("12345")).Version
		b.PutIfAbsent(ctx, "k", []byte("1"))
		b.PutIfMatch(ctx, "k", []byte("12"), v)
		b.Get(ctx, "k")
		b.Get(ctx, "none")
		hit(fault.LoseAnswer, 0)
		b.PutIfAbsent(ctx, "lost", []byte("123"))
		hit(fault.Throttle, 0)
		b.PutIfMatch(ctx, "k", nil, v)
		hit(fault.LoseRequest, 0)
		b.Delete(ctx, "k")
		b.Delete(ctx, "k")
		b.List(ctx, "p/", func(storage.Info) bool { return true })
		b.PutStream(ctx, "s", strings.NewReader("abcdef"), storage.Content{Size: 6, Sum: sha256.Sum256([]byte("abcdef"))})
		b.PutStream(ctx, "s", strings.NewReader("x"), storage.Content{Size: 1, Sum: sha256.Sum256([]byte("x"))})
		hit(fault.LoseRequest, 0)
		b.PutStream(ctx, "lost", strings.NewReader("x"), storage.Content{Size: 1})
		b.GetRange(ctx, "s", 1, 4)
		b.GetRange(ctx, "none", 1, 4)
		b.Stat(ctx, "s")
		b.SignGet(ctx, "s", time.Hour) // memory cannot
		ended, cancel := context.WithCancel(ctx)
		cancel()
		b.Get(ended, "k")
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		want := `put_if_absent k committed 5 3s
put_if_absent k conflict 1 0s
put_if_match k committed 2 0s
get k ok 2 0s
get none not_found 0 0s
put_if_absent lost unknown 3 0s
put_if_match k throttled 0 0s
delete k error 0 0s
delete k ok 0 0s
list p/ ok 0 0s
put_stream s committed 6 0s
put_stream s conflict 1 0s
put_stream lost unknown 1 0s
get_range s ok 4 0s
get_range none not_found 4 0s
stat s ok 0 0s
get k cancelled 0 0s
`
		if got != want {
			t.Errorf("observed:\n%swant:\n%s", got, want)
		}
	})
}
