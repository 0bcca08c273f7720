package bucket

import (
	"fmt"
	"path/filepath"
	"testing"

	"osqueue/cmd/osqueue/clitest"
	"osqueue/cmd/osqueue/view"
	"osqueue/fsm/fsmpb"
)

// longHistory is a queue in which so many jobs came, and a tenth of them was done,
// with a checkpoint after the first half.
func longHistory(b *testing.B, jobs int) *recorded {
	b.Helper()
	const each = 500
	r := newRecorded(b)
	for n := 0; n < jobs; n += each {
		op := &fsmpb.Enqueue{}
		for i := range each {
			op.Jobs = append(op.Jobs, &fsmpb.NewJob{Id: fmt.Sprintf("01890a5d-ac96-774b-bcce-%012d", n+i), Type: "mail", Payload: fmt.Appendf(nil,
				`{"to":"user%d@example.com","template":"welcome","locale":"en","variables":{"order":%d,"total":"%d.90"}}`, n%7919, n+i, i)})
		}
		r.apply(&fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: op}})
		claim := &fsmpb.Claim{Worker: "w1", Max: each / 10}
		var done []*fsmpb.Mutation
		for _, j := range r.apply(&fsmpb.Mutation{Op: &fsmpb.Mutation_Claim{Claim: claim}})[0].Jobs {
			op := &fsmpb.Complete{Worker: "w1", Lease: &fsmpb.Lease{JobId: j.ID, Token: j.Execution().Token}}
			done = append(done, &fsmpb.Mutation{Op: &fsmpb.Mutation_Complete{Complete: op}})
		}
		r.apply(done...)
		if n%(10*each) == 0 {
			r.cut()
		}
		if n == jobs/2 {
			r.cutIfAny()
			r.checkpoint(r.lsn())
		}
	}
	r.flush(true, begunAt)
	return r
}

// cutIfAny is cut, unless there is nothing to cut.
func (r *recorded) cutIfAny() {
	if r.tail.Len() > 0 {
		r.cut()
	}
}

// jobsOfBench is a million, or with -short ten thousand.
func jobsOfBench() int {
	if testing.Short() {
		return 10_000
	}
	return 1_000_000
}

// BenchmarkRestore is the command, from a directory to another one, at three
// quarters of the history.
func BenchmarkRestore(b *testing.B) {
	jobs := jobsOfBench()
	r := longHistory(b, jobs)
	at := r.lsn()
	at.Index = at.Index * 3 / 4
	n := 0
	for b.Loop() {
		n++
		to := "file://" + filepath.Join(b.TempDir(), fmt.Sprint(n))
		benchCommand(b, "restore", "--from", r.url(), "--at", at.String(), "--to", to)
	}
	b.ReportMetric(float64(jobs)*float64(n)/b.Elapsed().Seconds(), "jobs/s")
}

// BenchmarkVerify is the command on the same history.
func BenchmarkVerify(b *testing.B) {
	r := longHistory(b, jobsOfBench())
	for b.Loop() {
		benchCommand(b, "verify", r.url())
	}
}

// benchCommand runs a command line, which must end well.
func benchCommand(b *testing.B, args ...string) {
	b.Helper()
	var out, errOut clitest.Buffer
	g := view.NewGlobals("devel")
	g.Out, g.Err = &out, &errOut
	if code := view.Execute(b.Context(), args, g, view.NewRoot(g, Commands(g)...)); code != view.ExitOK {
		b.Fatal(out.String(), errOut.String())
	}
}
