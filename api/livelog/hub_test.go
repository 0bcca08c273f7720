package livelog

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func small() Config {
	return Config{JobBytes: 4 * (chunkCost + 10), TotalBytes: 1 << 20, Jobs: 100, Forget: 10 * time.Second}
}

// bench is a hub with a clock that stands.
type bench struct {
	*Hub
	t     *testing.T
	clock time.Time
}

func newBench(t *testing.T, cfg Config) *bench {
	b := &bench{Hub: New(cfg), t: t, clock: time.Unix(1000, 0)}
	b.now = func() time.Time { return b.clock }
	b.armed = true // no timer: the tests sweep
	return b
}

func (b *bench) watch(id, worker string, token uint64) {
	b.t.Helper()
	if err := b.Watch(Claim{Job{ID: id}, worker, token}, "reader of "+id); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) add(id string, token uint64, offset int64, text string) {
	b.Add(Job{ID: id}, Chunk{Token: token, Attempt: 1, Offset: offset, Bytes: int64(len(text)), Text: text})
}

// said returns the chunks after at as text, with losses.
func (b *bench) said(id string, at Position) (string, Position) {
	chunks, next, _ := b.Read(Job{ID: id}, at)
	var out strings.Builder
	for _, c := range chunks {
		if c.Lost > 0 {
			fmt.Fprintf(&out, "<%d>", c.Lost)
		}
		out.WriteString(c.Text)
	}
	return out.String(), next
}

func TestChunksInOrderAndOnce(t *testing.T) {
	b := newBench(t, small())
	b.add("j", 5, 0, "nobody watches")
	b.watch("j", "w", 5)
	b.add("j", 5, 0, "one ")
	b.add("j", 5, 0, "one ")
	b.add("j", 5, 4, "two")
	if text, _ := b.said("j", Position{}); text != "one two" {
		t.Errorf("said %q", text)
	}
	text, at := b.said("j", Position{Token: 5, Offset: 4})
	if text != "two" || at != (Position{5, 7}) {
		t.Errorf("said %q up to %v", text, at)
	}
	if text, _ := b.said("j", at); text != "" {
		t.Errorf("said %q again", text)
	}
	b.add("j", 9, 3, "next")
	b.add("j", 5, 7, "late")
	if text, at = b.said("j", at); text != "<3>next" || at != (Position{9, 7}) {
		t.Errorf("said %q up to %v", text, at)
	}
	if text, _ = b.said("j", Position{}); text != "one two<3>next" {
		t.Errorf("said %q", text)
	}
}

func TestASlowReaderLearnsItsLoss(t *testing.T) {
	b := newBench(t, small())
	b.watch("j", "w", 5)
	for i := range 10 {
		b.add("j", 5, int64(10*i), strings.Repeat(string(rune('0'+i)), 10))
	}
	if text, _ := b.said("j", Position{5, 10}); !strings.HasPrefix(text, "<50>6666666666") {
		t.Errorf("said %q", text)
	}
	b.mu.Lock()
	b.emptyLocked(b.jobs[Job{ID: "j"}])
	b.mu.Unlock()
	if text, at := b.said("j", Position{5, 10}); text != "<90>" || at != (Position{5, 100}) {
		t.Errorf("said %q up to %v", text, at)
	}
}

func TestWorkersLearnWhatIsWatched(t *testing.T) {
	b := newBench(t, small())
	changed, done := b.Changed("w")
	b.watch("j", "w", 5)
	select {
	case <-changed:
	default:
		t.Fatal("the worker was not woken")
	}
	done()
	b.add("j", 5, 0, "abc")
	if got := b.Watched("w", 10); len(got) != 1 || got[0] != (Wanted{Claim{Job{ID: "j"}, "w", 5}, 3}) {
		t.Fatalf("watched %+v", got)
	}
	b.watch("j", "v", 8) // another worker has claimed it
	if got := b.Watched("w", 10); len(got) != 0 {
		t.Errorf("the old worker has %+v", got)
	}
	if got := b.Watched("v", 10); len(got) != 1 || got[0] != (Wanted{Claim{Job{ID: "j"}, "v", 8}, 0}) {
		t.Errorf("the new worker has %+v", got)
	}
	b.watch("j", "", 0) // it has ended
	if got := b.Watched("v", 10); len(got) != 0 {
		t.Errorf("the worker has %+v", got)
	}
	if text, _ := b.said("j", Position{}); text != "abc" {
		t.Errorf("said %q after the end", text)
	}
}

func TestJobsWithoutReadersAreForgotten(t *testing.T) {
	b := newBench(t, small())
	b.watch("a", "w", 5)
	b.add("a", 5, 0, "abc")
	_, _, more := b.Read(Job{ID: "a"}, Position{5, 3})
	b.clock = b.clock.Add(9 * time.Second)
	b.watch("b", "w", 6)
	b.clock = b.clock.Add(2 * time.Second)
	if got := b.Watched("w", 10); len(got) != 1 || got[0].ID != "b" {
		t.Errorf("watched %+v", got)
	}
	b.watch("c", "w", 7)
	<-more
	if len(b.jobs) != 2 || b.bytes != 0 {
		t.Errorf("%d jobs with %d bytes", len(b.jobs), b.bytes)
	}
	b.clock = b.clock.Add(time.Minute)
	b.mu.Lock()
	b.sweepLocked()
	b.mu.Unlock()
	if len(b.jobs)+len(b.workers)+b.order.Len()+b.heavy.Len() != 0 {
		t.Errorf("%d jobs and %d workers are left", len(b.jobs), len(b.workers))
	}
}

// 10 000 watched jobs that all write stay within the bound, and each reader learns what it lost.
func TestManyWatchedJobsAreBounded(t *testing.T) {
	const jobs, chunk = 10_000, 8 << 10
	b := newBench(t, DefaultConfig())
	text := strings.Repeat("x", chunk)
	for i := range jobs {
		b.watch(fmt.Sprint(i), fmt.Sprint("w", i%100), uint64(i+1))
	}
	for round := range 2 {
		for i := range jobs {
			b.add(fmt.Sprint(i), uint64(i+1), int64(round*chunk), text)
			if b.bytes > DefaultConfig().TotalBytes {
				t.Fatalf("%d bytes are kept", b.bytes)
			}
		}
	}
	whole := 0
	for i := range jobs {
		chunks, at, _ := b.Read(Job{ID: fmt.Sprint(i)}, Position{})
		var got, lost int64
		for _, c := range chunks {
			got, lost = got+c.Bytes, lost+c.Lost
		}
		if got+lost != 2*chunk || at.Offset != 2*chunk {
			t.Fatalf("job %d: %d bytes and %d lost", i, got, lost)
		}
		if lost == 0 {
			whole++
		}
	}
	t.Logf("%d of %d jobs are whole, %d bytes are kept", whole, jobs, b.bytes)
}

// One reader gets half of the watched jobs, and other readers get the rest. A slot is free when
// no reader has polled for its job, and moves to the reader that polls.
func TestOneReaderCannotWatchAllJobs(t *testing.T) {
	b := newBench(t, Config{JobBytes: 1000, TotalBytes: 1000, Jobs: 4, Forget: 10 * time.Second})
	watch := func(id, reader string, want error) {
		t.Helper()
		if err := b.Watch(Claim{Job: Job{ID: id}}, reader); !errors.Is(err, want) {
			t.Errorf("%s watches %s: %v, want %v", reader, id, err, want)
		}
	}
	watch("1", "a", nil)
	watch("2", "a", nil)
	watch("3", "a", ErrReader)
	watch("2", "a", nil)
	watch("3", "b", nil)
	watch("4", "b", nil)
	watch("1", "b", ErrReader)
	watch("5", "c", ErrFull)
	watch("1", "c", nil)
	b.clock = b.clock.Add(6 * time.Second)
	watch("1", "c", nil)
	b.clock = b.clock.Add(6 * time.Second)
	watch("5", "a", nil)
	watch("6", "a", nil)
	watch("7", "a", ErrReader)
	watch("7", "c", nil)
	watch("8", "b", ErrFull)
}

// A reader that follows gets each byte once, or learns that it is lost, also when chunks are
// dropped and repeated.
func TestEveryByteOnceOrLost(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := newBench(t, Config{JobBytes: 500, TotalBytes: 700, Jobs: 3, Forget: time.Hour})
		written := map[uint64]int64{}
		readers := map[string]Position{}
		token := uint64(1)
		rt.Repeat(map[string]func(*rapid.T){
			"write": func(rt *rapid.T) {
				id := rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "job")
				b.watch(id, "w", token)
				n := rapid.Int64Range(1, 100).Draw(rt, "bytes")
				from := max(written[token]-rapid.Int64Range(0, 20).Draw(rt, "repeated"), 0)
				if id == "a" {
					b.Add(Job{ID: id}, Chunk{Token: token, Offset: from, Bytes: n, Text: strings.Repeat("x", int(n))})
					written[token] = max(written[token], from+n)
				} else {
					b.Add(Job{ID: id}, Chunk{Token: token, Offset: 0, Bytes: n, Text: strings.Repeat("y", int(n))})
				}
			},
			"claim": func(*rapid.T) { token++ },
			"drop": func(*rapid.T) {
				if r := b.jobs[Job{ID: "a"}]; r != nil {
					b.mu.Lock()
					b.dropOldestLocked(r)
					b.mu.Unlock()
				}
			},
			"read": func(rt *rapid.T) {
				name := rapid.SampledFrom([]string{"fast", "slow"}).Draw(rt, "reader")
				chunks, next, _ := b.Read(Job{ID: "a"}, readers[name])
				at := readers[name]
				for _, c := range chunks {
					if c.Token != at.Token {
						at = Position{Token: c.Token}
					}
					if c.Lost != max(c.Offset-at.Offset, 0) || c.end() < at.Offset {
						rt.Fatalf("chunk %+v at %+v", c, at)
					}
					at.Offset = c.end()
				}
				if at != next {
					rt.Fatalf("at %+v, want %+v", next, at)
				}
				readers[name] = next
			},
			"": func(rt *rapid.T) {
				sum := 0
				for _, r := range b.jobs {
					for _, a := range r.attempts {
						for _, c := range a.chunks {
							sum += c.cost()
						}
					}
				}
				if sum != b.bytes || sum > b.cfg.TotalBytes {
					rt.Fatalf("%d bytes are counted, %d kept", b.bytes, sum)
				}
			},
		})
	})
}
