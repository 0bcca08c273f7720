package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	money "osqueue/storage/cost"
	"osqueue/tests/cluster"
	"osqueue/tests/measure"
)

// billed is a load whose requests to the bucket are counted. Jobs go from enqueue over
// claim to completion.
type billed struct {
	name    string
	rate    int     // jobs a second
	payload int     // bytes of text of each
	aim     float64 // dollars a month; 0: none
}

// bills are the loads of the table in docs/operations/cost.md.
var bills = []billed{
	{name: "idle", aim: 2.00},
	{name: "10 jobs/s of 130 B", rate: 10, payload: 130},
	{name: "1000 jobs/s of 130 B", rate: 1000, payload: 130, aim: 14},
	{name: "1000 jobs/s of 1 KB", rate: 1000, payload: 1000},
}

// s3Flags give a directory the latency of S3 and its prices in us-east-1. The figures are not
// about speed, and a busy machine must not cost a leader its term. The inbox begins with the
// interval that it reaches after 40 min without a file, under any load.
var s3Flags = []string{
	"--flush-interval", "1s", "--broker-heartbeat", "10s", "--broker-timeout", "30s", "--inbox-interval", "5m", "--inbox-idle-interval", "5m",
	"--bucket-prices", money.DefaultPrices("s3").String(),
	"--raft-heartbeat", "5s", "--raft-election", "5s", "--raft-lease", "3s",
}

const (
	billTick    = 100 * time.Millisecond // between two rounds of a load
	riseDefault = 10 * time.Second       // under load, before requests are counted
)

// bill counts the requests of all loads, at the same time, each on a cluster of its own.
func (b *bench) bill() error {
	type result struct {
		used money.Counts
		span time.Duration
		err  error
	}
	results := make([]chan result, len(bills))
	for i := range bills {
		results[i] = make(chan result, 1)
		go func() {
			used, span, err := b.billOf(&bills[i])
			results[i] <- result{used, span, err}
		}()
	}
	var failed error
	for i, l := range bills {
		r := <-results[i]
		if r.err != nil {
			failed = fmt.Errorf("%s: %w", l.name, r.err)
			continue
		}
		b.reportBill(&l, r.used, r.span)
	}
	return failed
}

func (b *bench) reportBill(l *billed, used money.Counts, span time.Duration) {
	month := func(n uint64) float64 { return float64(n) * float64(money.Month) / float64(span) }
	puts := used.Creates + used.Replaces
	dollars := month(uint64(money.DefaultPrices("s3").Of(used))) / float64(money.Dollar)
	f := figure{
		Section: "cost", Name: l.name, Value: dollars, Unit: "$/month",
		Beside: fmt.Sprintf("%.1f PUT/min, %.1f LIST/min", float64(puts)/span.Minutes(), float64(used.Lists)/span.Minutes()),
	}
	if l.aim > 0 {
		f = f.atMost(l.aim, "$/month", dollars)
	}
	b.report.add(f)
	b.report.remark(fmt.Sprintf("%-11s   in %v: %d writes of the document, %d of objects, %d listings, %d reads, %d deletes; %.0f KB/s written",
		"", span.Round(time.Second), used.Replaces, used.Creates, used.Lists, used.Gets, used.Deletes,
		float64(used.BytesWritten)/1000/span.Seconds()))
}

// billOf returns the bucket usage of all nodes of a cluster, and its time span.
func (b *bench) billOf(l *billed) (used money.Counts, span time.Duration, err error) {
	p, err := measure.NewPlace("osqueue-bill-")
	if err != nil {
		return used, 0, err
	}
	defer p.Leave()
	forget := measure.OnInterrupt("bench", p.Leave)
	defer forget()
	err = p.Guarded(func() error {
		c := cluster.Start(p, cluster.Options{Bucket: b.bucket, Flags: slices.Concat(s3Flags, b.serve)})
		br := &brokers{Cluster: c, leader: c.WaitLeader()}
		end := make(chan struct{})
		done := make(chan error, 1)
		go func() { done <- l.drive(br.leader.HTTP, end) }()
		used, span, err = br.countBucket(b.rise, b.span, done)
		close(end)
		if err != nil {
			p.Failure = err.Error()
			return err
		}
		return <-done
	})
	return used, span, err
}

// countBucket lets the load run for the time rise, and then counts for the time span, or until the
// load ends.
func (br *brokers) countBucket(rise, span time.Duration, load <-chan error) (money.Counts, time.Duration, error) {
	wait := func(d time.Duration) error {
		select {
		case err := <-load:
			return fmt.Errorf("the load ended early: %w", err)
		case <-time.After(d):
			return nil
		}
	}
	if err := wait(rise); err != nil {
		return money.Counts{}, 0, err
	}
	before, begin := br.bucketUse(), time.Now()
	if err := wait(span); err != nil {
		return money.Counts{}, 0, err
	}
	after := br.bucketUse()
	return money.Counts{
		Gets: after.Gets - before.Gets, Creates: after.Creates - before.Creates, Replaces: after.Replaces - before.Replaces,
		Lists: after.Lists - before.Lists, Deletes: after.Deletes - before.Deletes,
		BytesRead: after.BytesRead - before.BytesRead, BytesWritten: after.BytesWritten - before.BytesWritten,
	}, time.Since(begin), nil
}

// bucketUse sums up the nodes' counts of their requests.
func (br *brokers) bucketUse() (sum money.Counts) {
	for _, n := range br.Nodes {
		s, err := n.Status()
		if err != nil || s.Bucket == nil {
			continue
		}
		r := s.Bucket.Requests
		sum.Gets += r["get"]
		sum.Creates += r["put_if_absent"]
		sum.Replaces += r["put_if_match"]
		sum.Lists += r["list"]
		sum.Deletes += r["delete"]
		sum.BytesRead += s.Bucket.BytesRead
		sum.BytesWritten += s.Bucket.BytesWritten
	}
	return sum
}

// drive sends the load until end is closed.
func (l *billed) drive(host string, end <-chan struct{}) error {
	c, err := dial(host)
	if err != nil {
		return err
	}
	defer c.close()
	random := rand.New(rand.NewPCG(1, uint64(l.rate)))
	tick := time.NewTicker(billTick)
	defer tick.Stop()
	for {
		select {
		case <-end:
			return nil
		case <-tick.C:
		}
		n := l.rate * int(billTick/time.Millisecond) / 1000
		if n == 0 {
			continue
		}
		if err := l.round(c, n, random); err != nil {
			return err
		}
	}
}

// round enqueues, claims and completes n new jobs.
func (l *billed) round(c *conn, n int, random *rand.Rand) error {
	jobs := make([]string, n)
	for i := range jobs {
		jobs[i] = fmt.Sprintf(`{"type":"bench","payload":{"text":%q}}`, l.text(random))
	}
	if _, err := c.do(legacy.post(c.host, "/v1/jobs/batch", []byte(`{"jobs":[`+strings.Join(jobs, ",")+`]}`))); err != nil {
		return err
	}
	_, err := claimAndComplete(c, n)
	return err
}

// text returns random text: words of a small vocabulary for a short payload, and incompressible
// data for a longer one.
func (l *billed) text(random *rand.Rand) string {
	var b strings.Builder
	if l.payload >= 1000 {
		const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/"
		for b.Len() < l.payload {
			b.WriteByte(letters[random.IntN(len(letters))])
		}
		return b.String()
	}
	for b.Len() < l.payload {
		fmt.Fprintf(&b, "%s %d ", words[random.IntN(len(words))], random.IntN(1000))
	}
	return b.String()[:l.payload]
}

var words = strings.Fields("send mail to customer order invoice number thumbnail image resize region bucket report daily user account paid refund shipped parcel from warehouse update index search cache video encode")

// claimAndComplete claims up to n jobs and completes them.
func claimAndComplete(c *conn, n int) (int, error) {
	answer, err := c.do(legacy.post(c.host, "/v1/jobs/claim", fmt.Appendf(nil, `{"workerId":"bench","max":%d}`, n)))
	if err != nil {
		return 0, err
	}
	var got taken
	if err := json.Unmarshal(answer, &got); err != nil {
		return 0, err
	}
	if len(got.Jobs) == 0 {
		return 0, nil // others were quicker
	}
	done := completion{WorkerID: "bench"}
	for _, j := range got.Jobs {
		done.Jobs = append(done.Jobs, completedJob{JobID: j.ID, Token: j.Token})
	}
	body, err := json.Marshal(done)
	if err != nil {
		return 0, err
	}
	_, err = c.do(legacy.post(c.host, "/v1/jobs/complete", body))
	return len(done.Jobs), err
}
