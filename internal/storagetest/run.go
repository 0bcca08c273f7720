package storagetest

import (
	"context"
	"flag"
	"strconv"
	"testing"
	"time"

	"osqueue/storage"
)

// testTimeout bounds each test of the suite.
const testTimeout = time.Minute

// faultsAtOnce is how many tests of a package of HTTP faults run at a time.
const faultsAtOnce = 16

// MostlyWaits lets more tests of this package run at a time than there are
// processors, unless -parallel says how many. Call it first in TestMain.
func MostlyWaits() { AtOnce(faultsAtOnce) }

// AtOnce is MostlyWaits for n tests at a time.
func AtOnce(n int) {
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(err) // the flag exists in every test binary
	}
}

// Option selects one of the behaviours that the contract permits.
type Option func(*suite)

// RepeatsVersions is for drivers whose version is a hash of the content.
func RepeatsVersions() Option { return func(s *suite) { s.repeats = true } }

// Shared gives the suite a second handle on the bucket that open returned, as
// another process would have it.
func Shared(second func(*testing.T, storage.Bucket) storage.Bucket) Option {
	return func(s *suite) { s.second = second }
}

// Objects sets how many objects the listing test makes (default 40), for
// drivers whose pages are longer.
func Objects(n int) Option { return func(s *suite) { s.objects = n } }

// Run checks that what open returns keeps the contracts of storage.Bucket and storage.Streamer. Each
// call of open returns an empty bucket, which the suite closes.
func Run(t *testing.T, open func(*testing.T) storage.Bucket, options ...Option) {
	s := &suite{open: open, objects: 40}
	s.second = func(_ *testing.T, b storage.Bucket) storage.Bucket { return b }
	for _, o := range options {
		o(s)
	}
	for _, c := range []struct {
		name string
		test func(*testing.T, storage.Bucket)
	}{
		{"GetAbsent", s.getAbsent},
		{"CreateOnce", s.createOnce},
		{"ReplaceByVersion", s.replaceByVersion},
		{"StaleVersion", s.staleVersion},
		{"ForeignVersion", s.foreignVersion},
		{"SameBytesAgain", s.sameBytesAgain},
		{"Contents", s.contents},
		{"CallerKeepsItsSlices", s.callerKeepsItsSlices},
		{"Keys", s.keys},
		{"BadKeys", s.badKeys},
		{"Delete", s.deleteObject},
		{"DeleteThenCreate", s.deleteThenCreate},
		{"DeleteMany", s.deleteMany},
		{"List", s.list},
		{"ListOrder", s.listOrder},
		{"ListStops", s.listStops},
		{"EndedContext", s.endedContext},
		{"OneCreatorWins", s.oneCreatorWins},
		{"OneReplacerWins", s.oneReplacerWins},
		{"CountersAddUp", s.countersAddUp},
		{"ReadsSeeWrites", s.readsSeeWrites},
		{"Streams", s.streams},
		{"StreamsCreate", s.streamsCreate},
		{"StreamsCut", s.streamsCut},
		{"StreamsEnd", s.streamsEnd},
		{"StreamsRefuse", s.streamsRefuse},
		{"Model", s.model},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := s.open(t)
			t.Cleanup(func() {
				if err := b.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			})
			c.test(t, b)
		})
	}
}

type suite struct {
	open    func(*testing.T) storage.Bucket
	second  func(*testing.T, storage.Bucket) storage.Bucket
	repeats bool
	objects int
}

// tb is the part of testing.T and rapid.T that the helpers use.
type tb interface {
	Helper()
	Fatalf(format string, args ...any)
}

func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

func mustCommit(t tb, w storage.Write) storage.Version {
	t.Helper()
	if w.Outcome != storage.Committed || w.Err != nil || w.Version == "" {
		t.Fatalf("write = %+v, want committed with a version and no error", w)
	}
	return w.Version
}

func mustConflict(t tb, w storage.Write) {
	t.Helper()
	if w.Outcome != storage.Conflict || w.Version != "" {
		t.Fatalf("write = %+v, want conflict without a version", w)
	}
}

func mustGet(ctx context.Context, t tb, b storage.Bucket, key string) storage.Object {
	t.Helper()
	o, err := b.Get(ctx, key)
	if err != nil {
		t.Fatalf("get %q: %v", key, err)
	}
	return o
}

func mustHold(ctx context.Context, t tb, b storage.Bucket, key, data string, v storage.Version) {
	t.Helper()
	o := mustGet(ctx, t, b, key)
	if string(o.Data) != data || o.Version != v {
		t.Fatalf("get %q = %.40q version %q, want %.40q version %q", key, o.Data, o.Version, data, v)
	}
}

func mustKeys(ctx context.Context, t tb, b storage.Bucket, prefix string) []string {
	t.Helper()
	keys := []string{}
	err := b.List(ctx, prefix, func(i storage.Info) bool {
		if i.Key != storage.MarkerKey { // a directory has it with its first document
			keys = append(keys, i.Key)
		}
		return true
	})
	if err != nil {
		t.Fatalf("list %q: %v", prefix, err)
	}
	return keys
}
