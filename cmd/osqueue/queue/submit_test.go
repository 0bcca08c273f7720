package queue

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/clitest"
	"osqueue/cmd/osqueue/view"
)

func TestSubmitPayloadIsBounded(t *testing.T) {
	q := clitest.NewFake(t)
	got := osq.Run(t, q, strings.Repeat(" ", maxPayload+1), "submit", "a")
	if got.Code != view.ExitFailure || !strings.Contains(got.Err, "larger than") || len(q.All()) != 0 {
		t.Errorf("%+v", got)
	}
}

func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintln(&b, i)
	}
	return b.String()
}

// The rate of a submission is not that of the workers.
func TestSubmitRateIsThatOfTheSubmission(t *testing.T) {
	q := clitest.NewFake(t)
	const wait = 2 * time.Second
	got := osq.Run(t, q, "1\n2\n", "submit", "wait", "--file", "-", "--wait", "--wait-for", wait.String())
	found := regexp.MustCompile(`submitted 2 jobs in (\S+) \(\d+ jobs/s\); 0 ended within (\S+)\n`).FindStringSubmatch(got.Err)
	if got.Code != view.ExitFailure || found == nil {
		t.Fatalf("%+v", got)
	}
	submitted, err := time.ParseDuration(found[1])
	all, err2 := time.ParseDuration(found[2])
	if err != nil || err2 != nil || submitted >= wait/2 || all < wait {
		t.Errorf("%+v", got)
	}
	before := len(q.All())
	osq.Run(t, q, "\ufeffone\n\ufefftwo\n", "submit", "wait", "--text", "--file", "-")
	if jobs := q.All()[before:]; len(jobs) != 2 || string(jobs[0].Payload) != `"one"` || string(jobs[1].Payload) != "\"\ufefftwo\"" {
		t.Errorf("a byte order mark: %+v", jobs)
	}
	if got := osq.Run(t, q, "\n", "submit", "wait", "--file", "-"); got.Err != "submitted 0 jobs\n" {
		t.Errorf("%+v", got)
	}
}

func TestSubmitFileNamesTheBadLine(t *testing.T) {
	for name, c := range map[string]struct {
		args  string
		lines string
		want  string
	}{
		"not JSON":       {"submit a --file -", "1\n2\n\nx\n5\n", "line 4 is not valid JSON"},
		"not a job":      {"submit --file -", "{\"type\":\"a\"}\n[]\n", "line 2 is not a job"},
		"unknown member": {"submit --file -", "{\"type\":\"a\"}\n{\"type\":\"a\",\"pyload\":1}\n", "pyload"},
		"no type":        {"submit --file -", "{\"type\":\"a\"}\n{\"typ\":\"a\"}\n{}\n", "line 2 "},
		"empty job":      {"submit --file -", "{}\n", "line 1 has no type"},
		"too long":       {"submit a --file -", "1\n" + strings.Repeat("9", maxPayload+1), "line 2 is longer"},
		"not UTF-8":      {"submit a --text --file -", "a\n\xff\n", "line 2 is not UTF-8"},
	} {
		q := clitest.NewFake(t)
		got := osq.Run(t, q, c.lines, strings.Fields(c.args)...)
		if got.Code != view.ExitFailure || !strings.Contains(got.Err, c.want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// If one batch is refused, the error is printed, and the batches before it are awaited.
func TestSubmitFileWaitWithAFault(t *testing.T) {
	t.Parallel()
	for _, order := range []string{"--keep-order", "--keep-order=false"} {
		q := clitest.NewFake(t)
		n := 0
		q.Refuse = func(r *http.Request) *v1.Problem {
			if r.URL.Path != v1.PathJobsBatch {
				return nil
			}
			if n++; n != 2 {
				return nil
			}
			return &v1.Problem{Status: 409, Tag: v1.TagIDTaken, Detail: "taken", Committed: v1.CommittedNo}
		}
		got := osq.Run(t, q, numbered(3_000), "submit", "a", "--file", "-", "--wait", order)
		if got.Code != view.ExitFailure || strings.Count(got.Err, "were not enqueued: enqueue batch: taken") != 1 {
			t.Errorf("%s", got.Err)
		}
		if rows, jobs := strings.Count(got.Out, "\n"), len(q.All()); rows != jobs || jobs < 1000 || jobs > 2_000 {
			t.Errorf("%s: %d lines for %d jobs", order, rows, jobs)
		}
	}
}

// Ctrl-C ends the wait, and the command that it prints continues it.
func TestSubmitFileWaitInterrupted(t *testing.T) {
	for _, flags := range []string{"", "--idempotency-key k"} {
		q := clitest.NewFake(t)
		line := append([]string{"submit", "wait", "--file", "-", "--wait"}, strings.Fields(flags)...)
		got := interruptedAt(t, q, 3, "1\n2\n3\n", line...)
		if got.Code != view.ExitInterrupted || !strings.Contains(got.Err, "3 jobs continue") {
			t.Fatalf("%+v", got)
		}
		_, again, found := strings.Cut(got.Err, "osqueue: 3 jobs continue; wait for them again with the same command and ")
		if !found {
			t.Fatalf("%s", got.Err)
		}
		q.EndAll(v1.StatusCompleted)
		got = osq.Run(t, q, "1\n2\n3\n", append([]string{"submit", "wait", "--file", "-", "--wait"}, strings.Fields(again)...)...)
		if n := len(q.All()); got.Code != view.ExitOK || n != 3 || strings.Count(got.Out, "completed") != 3 {
			t.Errorf("%d jobs, %+v", n, got)
		}
	}
}

// When the cluster is unreachable for too long, the jobs continue, and the command
// prints how to wait for them again.
func TestManyJobsOfALostCluster(t *testing.T) {
	for line, want := range map[string]string{
		"submit wait --file - --wait --timeout 300ms": "3 jobs continue; wait for them again with the same command and --id ",
		"map - --name n --timeout 300ms -- wait":      "3 jobs continue; resume the run with the same command and --name n, or end it with: ",
	} {
		q := clitest.NewFake(t)
		lose := func(context.CancelFunc) {
			q.Server.Listener.Close()
			q.Server.CloseClientConnections()
		}
		got := atJobs(t, q, 3, lose, "1\n2\n3\n", strings.Fields(line)...)
		if got.Code == view.ExitOK || got.Code == view.ExitInterrupted || !strings.Contains(got.Err, "no server could be reached") || !strings.Contains(got.Err, "\n"+want) {
			t.Errorf("%+v", got)
		}
	}
}

// Jobs whose enqueueing was not answered may exist: they count as jobs that continue. There is
// one line, because map sends the lines that it has read so far.
func TestJobsWithoutAnAnswer(t *testing.T) {
	for _, line := range []string{"submit wait --timeout 300ms --file - --wait", "map - --timeout 300ms --name n -- wait"} {
		if got := interruptedUnanswered(t, line); got.Code != view.ExitInterrupted || !strings.Contains(got.Err, "osqueue: 1 job continues; ") {
			t.Errorf("%s: %+v", line, got)
		}
		q := clitest.NewFake(t)
		q.Refuse = func(r *http.Request) *v1.Problem {
			if r.URL.Path == v1.PathJobsBatch {
				panic(http.ErrAbortHandler)
			}
			return nil
		}
		got := osq.Run(t, q, "1\n", strings.Fields(line)...)
		if got.Code == view.ExitOK || !strings.Contains(got.Err, "line 1: enqueue batch: ") || !strings.Contains(got.Err, "it is not known whether it took effect") || !strings.Contains(got.Err, "continue with the same command and --") {
			t.Errorf("%s: %+v", line, got)
		}
	}
}

// interruptedUnanswered runs a command line for one line, and interrupts it while the server has
// the request and has not answered.
func interruptedUnanswered(t *testing.T, line string) clitest.Result {
	t.Helper()
	q := clitest.NewFake(t)
	c := osq.Command(t, q.Server.URL)
	ctx, stop := context.WithCancel(c.Ctx)
	defer stop()
	q.Refuse = func(r *http.Request) *v1.Problem {
		if r.URL.Path == v1.PathJobsBatch {
			body, _ := io.ReadAll(r.Body) // before it, the server does not see that the client leaves
			r.Body = io.NopCloser(bytes.NewReader(body))
			stop()
			<-r.Context().Done()
		}
		return nil
	}
	c.Ctx, c.Stdin = ctx, strings.NewReader("1\n")
	return c.Run(strings.Fields(line)...)
}

// interruptedAt runs a command line that is interrupted when the fake has so many
// jobs.
func interruptedAt(t *testing.T, q *clitest.Fake, jobs int, stdin string, args ...string) clitest.Result {
	t.Helper()
	return atJobs(t, q, jobs, func(stop context.CancelFunc) { stop() }, stdin, args...)
}

// atJobs runs a command line. When the fake has so many jobs and has answered, it calls
// then, with what interrupts the command.
func atJobs(t *testing.T, q *clitest.Fake, jobs int, then func(context.CancelFunc), stdin string, args ...string) clitest.Result {
	t.Helper()
	c := osq.Command(t, q.Server.URL)
	ctx, stop := context.WithCancel(c.Ctx)
	defer stop()
	c.Ctx = ctx
	if stdin != "" {
		c.Stdin = strings.NewReader(stdin)
	}
	whenJobs(ctx, q, jobs, func() { then(stop) })
	return c.Run(args...)
}

// whenJobs calls then when the fake has so many jobs and has answered, or when the context ends.
func whenJobs(ctx context.Context, q *clitest.Fake, jobs int, then func()) {
	go func() {
		for (len(q.All()) < jobs || !q.Answered()) && ctx.Err() == nil {
			<-time.After(time.Millisecond)
		}
		then()
	}()
}

// However long the lines are: all of them arrive, in order, in batches that fit.
func TestLinesBecomeBatchesThatFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.IntRange(1, 300_000), 0, 12).Draw(t, "sizes")
		var want []string
		for _, n := range sizes {
			want = append(want, strings.Repeat("1", n))
		}
		f := &submitFlags{kind: "a", typed: true}
		var got []string
		end := 0
		for b, err := range batches(context.Background(), linesOf(strings.NewReader(strings.Join(want, "\n\n")), f.parse), maxBatchBytes, true) {
			if err != nil {
				t.Fatal(err)
			}
			var body []byte
			for _, l := range b {
				if l.number <= end {
					t.Fatalf("%v after line %d", b, end)
				}
				end = l.number
				one, _ := json.Marshal(v1.NewJob{ID: client.NewID(), Type: l.job.Type, Payload: l.job.Payload})
				body = append(body, one...)
				got = append(got, string(l.job.Payload))
			}
			if len(b) == 0 || len(b) > client.MaxBatchJobs || len(body)+len(b)+20 > client.MaxBatchBytes {
				t.Fatalf("a batch of %d jobs and %d bytes", len(b), len(body))
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%d lines of %d", len(got), len(want))
		}
	})
}

func FuzzLine(f *testing.F) {
	for _, s := range []string{"", "{}", `{"type":"a","payload":1}`, `{"payload":{"a":1,"a":2}}`, "[", `{"runAt":1e3}`, "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		for range linesOf(strings.NewReader(line), new(submitFlags).parse) {
		}
	})
}

const maxBatchBytes = client.MaxBatchBytes - 4096

// ackedLines are the commands that write.
var ackedLines = []string{
	"submit a 1", "submit a --file -", "job cancel waits", "job set waits --priority 3", "job retry dead", "job delete done", "job delete done dead",
	"job cancel --type wait --yes", "dead rm dead", "dead retry --all --yes",
	"queue pause mail", "queue resume mail", "queue set mail --max-attempts 1", "limit set k --running 1", "limit set type:mail --running 1", "limit hold k --for 1m", "limit rm k", "queue reset mail", "queue purge mail --yes",
	"cron put nightly @daily --type report", "cron pause nightly", "cron resume nightly", "cron trigger nightly", "cron rm nightly",
	"batch create", "batch cancel b1 --yes",
}

func newAckedFake(t *testing.T, level string) *clitest.Fake {
	q := clitest.NewFake(t)
	q.Level = level
	q.Add(v1.NewJob{ID: "waits", Type: "wait"})
	q.Add(v1.NewJob{ID: "dead", Type: "bad"})
	q.Add(v1.NewJob{ID: "done"})
	return q
}

// Every command that writes can ask for an ack level, and tells programs which
// one was reached.
func TestEveryWriteAsksForAcks(t *testing.T) {
	for _, line := range ackedLines {
		t.Run(line, func(t *testing.T) {
			q := newAckedFake(t, v1.AckObject)
			got := osq.Run(t, q, "1\n", append(strings.Fields(line), "--json", "--ack", "object")...)
			if got.Code != view.ExitOK || !strings.Contains(got.Out, `"committed":"object"`) || strings.Contains(got.Err, "not in the bucket") {
				t.Errorf("%+v", got)
			}
			for i, query := range q.Queries {
				if !strings.HasPrefix(query, "ack=object&ackWaitMs=") {
					t.Errorf("%s was sent with %q", q.Seen[i].Line, query)
				}
			}
		})
	}
}

// Without the flag nothing is asked, and people see nothing new.
func TestWritesWithoutAck(t *testing.T) {
	for _, line := range ackedLines {
		q := newAckedFake(t, v1.AckQuorum)
		got := osq.Run(t, q, "1\n", strings.Fields(line)...)
		if got.Code != view.ExitOK || strings.Contains(got.Out+got.Err, "quorum") || strings.Contains(got.Out+got.Err, "bucket") {
			t.Errorf("%s: %+v", line, got)
		}
		for i, query := range q.Queries {
			if query != "" {
				t.Errorf("%s was sent with %q", q.Seen[i].Line, query)
			}
		}
		q = newAckedFake(t, v1.AckQuorum)
		if got := osq.Run(t, q, "1\n", append(strings.Fields(line), "--json")...); !strings.Contains(got.Out, `"committed":"quorum"`) {
			t.Errorf("%s: %+v", line, got)
		}
	}
}

// A write that did not reach the wanted ack level prints a note and succeeds.
func TestAckThatWasNotReached(t *testing.T) {
	q := newAckedFake(t, v1.AckQuorum)
	got := osq.Run(t, q, "", "submit", "a", "1", "--id", "x", "--ack", "object", "--timeout", "300ms")
	if got.Code != view.ExitOK || got.Out != "x\n" || !strings.Contains(got.Err, "not in the bucket yet (LSN 3-1)") {
		t.Errorf("%+v", got)
	}
	if got := osq.Run(t, q, "", "submit", "a", "1", "--ack", "quorum"); got.Code != view.ExitOK || got.Err != "" {
		t.Errorf("%+v", got)
	}
}

// begunReader reports when a reader has begun to read.
type begunReader struct {
	io.Reader
	begun chan struct{}
}

func (r *begunReader) Read(p []byte) (int, error) {
	select {
	case r.begun <- struct{}{}:
	default:
	}
	return r.Reader.Read(p)
}

// Ctrl-C ends a command that waits for a silent stdin: a terminal, or a pipe that stays
// open.
func TestInterruptedWhileReading(t *testing.T) {
	for _, line := range []string{
		"run -- cat",
		"submit wc",
		"submit wc -",
		"submit wc --text --file -",
		"submit wc --text --file - --wait",
		"map - -- echo",
		"job delete --all",
	} {
		q := clitest.NewFake(t)
		q.Add(v1.NewJob{ID: "c0", Type: "good"})
		if got := interruptedReading(t, q, line); got.Code != view.ExitInterrupted || len(q.All()) != 1 {
			t.Errorf("%s: %+v, %d jobs", line, got, len(q.All()))
		}
	}
}

// interruptedReading runs a command line that is interrupted when it reads from a
// terminal.
func interruptedReading(t *testing.T, q *clitest.Fake, line string) clitest.Result {
	t.Helper()
	in, write := io.Pipe()
	defer write.Close()
	stdin := &begunReader{Reader: in, begun: make(chan struct{}, 1)}
	c := osq.Command(t, q.Server.URL)
	context.AfterFunc(c.Ctx, func() { write.Close() }) // else a failure would be a test that hangs
	ctx, interrupt := context.WithCancel(c.Ctx)
	c.Ctx, c.Stdin, c.Tty = ctx, stdin, true
	go func() {
		<-stdin.begun
		interrupt()
	}()
	return c.Run(strings.Fields(line)...)
}
