package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"osqueue/tests/cluster"
)

// observeCostMax is the aim for the time of a job, as a multiple of that without traces and
// scrapes.
const observeCostMax = 1.05

// observeRounds multiplies the rounds of this section. The ratio of one round varies by 10 %, so
// the median of 12 rounds is known to 4 % only, about as much as the aim.
const observeRounds = 4

// observed is one of the clusters that the section observe compares.
type observed struct {
	*brokers
	name    string
	sampler string // share of the traces that are exported; "": nodes export none
	scraped bool
}

// observe compares lifecycles on clusters without and with traces, in turns. A collector in
// this process takes the spans and forgets them. /metrics of the leader is scraped every second
// on some of them. The counters per type belong to the state of all of these clusters.
func (b *bench) observe() error {
	more := *b
	more.rounds *= observeRounds
	return more.observeAll()
}

func (b *bench) observeAll() error {
	collector, stop, err := startCollector()
	if err != nil {
		return err
	}
	defer stop()
	all := []*observed{
		{name: "no traces, no scrapes"},
		{name: "the same again"}, // shows what the method can tell apart
		{name: "1 % of the traces, scrapes", sampler: "0.01", scraped: true},
		{name: "all traces, scrapes", sampler: "1", scraped: true},
	}
	return b.observeOn(collector, all, 0)
}

// observeOn starts the clusters from index i on, and compares all.
func (b *bench) observeOn(collector string, all []*observed, i int) error {
	if i == len(all) {
		return b.compareObserved(all)
	}
	opt := cluster.Options{Prefix: fmt.Sprintf("o%d", i), Bucket: b.bucket}
	if share := all[i].sampler; share != "" {
		opt.Env = []string{
			"OTEL_EXPORTER_OTLP_ENDPOINT=" + collector, "OTEL_TRACES_SAMPLER=parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG=" + share,
			"OTEL_BSP_MAX_QUEUE_SIZE=65536",
		}
	}
	return b.withClusterOf(opt, func(br *brokers) error {
		all[i].brokers = br
		return b.observeOn(collector, all, i+1)
	})
}

func (b *bench) compareObserved(all []*observed) error {
	measured, err := b.inTurns(len(all), func(side int) (float64, *cost, error) {
		o := all[side]
		if o.scraped {
			defer scrapeEverySecond(o.leader.HTTP)()
		}
		l, err := o.load(singleClients, b.turn(), throughLifeAlone(o.leader.HTTP))
		if err != nil {
			return 0, nil, fmt.Errorf("%s: %w", o.name, err)
		}
		return l.rate, l.cost, nil
	})
	if err != nil {
		return err
	}
	// Clusters with the same settings differ by up to 3 %, so the reference is both of them.
	off := meanOf(measured[0], measured[1])
	for i, s := range measured {
		f := figure{
			Section: "observe", Name: fmt.Sprintf("enqueue, claim, complete, %d clients × 1, %s", singleClients, all[i].name),
			Value: s.rate(), Unit: "jobs/s", Beside: s.cost().perJob(s.rate()), Cost: s.cost(),
		}
		switch i {
		case 0:
		case 1:
			f.Beside += fmt.Sprintf("; of the first: throughput %.2f, CPU of the nodes %.2f", s.rateOf(measured[0]), s.nodesOf(measured[0]))
		default:
			rate := s.rateOf(off)
			f.Beside += fmt.Sprintf("; of the first two: throughput %.2f, CPU of the nodes %.2f", rate, s.nodesOf(off))
			f = f.atMost(observeCostMax, "time of the first two", 1/rate)
		}
		b.report.add(f)
	}
	return nil
}

// startCollector starts a collector that forgets all spans.
func startCollector() (url string, stop func(), err error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	srv := &http.Server{ReadHeaderTimeout: 5 * time.Second, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
	})}
	go func() { _ = srv.Serve(ln) }()
	return "http://" + ln.Addr().String(), func() { _ = srv.Close() }, nil
}

// scrapeEverySecond reads /metrics of a node until the function that it returns is called.
func scrapeEverySecond(host string) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		scraper := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+host+"/metrics", nil); err == nil {
				if res, err := scraper.Do(req); err == nil {
					_, _ = io.Copy(io.Discard, res.Body)
					_ = res.Body.Close()
				}
			}
		}
	})
	return func() { cancel(); wg.Wait() }
}
