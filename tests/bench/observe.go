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

// observeRounds is the number of rounds in which the clusters of the section observe take
// turns.
const observeRounds = 4

// observeCostMax is the aim for the processor time of the nodes, as a multiple of that without
// traces and scrapes.
const observeCostMax = 1.05

// observed is one of the clusters that the section observe compares.
type observed struct {
	*brokers
	name    string
	sampler string // share of the traces that are exported; "": nodes export none and are not scraped
	rate    float64
	cost    cost
}

func (o *observed) nodes() float64 { return 1e6 * (o.cost.Leader + o.cost.Followers) / o.rate }

// observe compares lifecycles on clusters without and with traces, in turns. A collector in
// this process takes the spans and forgets them. /metrics of the leader is scraped every second
// where traces are exported. The counters per type belong to the state of all of these clusters;
// BenchmarkFiguresInTurns of fsm has their cost.
func (b *bench) observe() error {
	collector, stop, err := startCollector()
	if err != nil {
		return err
	}
	defer stop()
	all := []*observed{
		{name: "no traces, no scrapes"},
		{name: "1 % of the traces, scrapes", sampler: "0.01"},
		{name: "all traces, scrapes", sampler: "1"},
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
	for round := range observeRounds {
		for i := range all {
			o := all[(i+round)%len(all)] // none is always first
			end := func() {}
			if o.sampler != "" {
				end = scrapeEverySecond(o.leader.HTTP)
			}
			l, err := o.load(singleClients, b.duration/observeRounds, throughLifeAlone(o.leader.HTTP))
			end()
			if err != nil {
				return fmt.Errorf("%s: %w", o.name, err)
			}
			o.rate += l.rate / observeRounds
			if l.cost != nil {
				o.cost.add(*l.cost, observeRounds)
			}
		}
	}
	off := all[0]
	for _, o := range all {
		beside := fmt.Sprintf("CPU µs a job: leader %.0f, followers %.0f", 1e6*o.cost.Leader/o.rate, 1e6*o.cost.Followers/o.rate)
		if o != off {
			beside += fmt.Sprintf("; of the first: throughput %.2f, CPU of the nodes %.2f (at most %.2f)", o.rate/off.rate, o.nodes()/off.nodes(), observeCostMax)
		}
		b.report.add(figure{
			Section: "observe", Name: fmt.Sprintf("enqueue, claim, complete, %d clients × 1, %s", singleClients, o.name),
			Value: o.rate, Unit: "jobs/s", Beside: beside, Cost: &o.cost,
		})
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
		for ctx.Err() == nil {
			if req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+host+"/metrics", nil); err == nil {
				if res, err := scraper.Do(req); err == nil {
					_, _ = io.Copy(io.Discard, res.Body)
					_ = res.Body.Close()
				}
			}
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	})
	return func() { cancel(); wg.Wait() }
}
