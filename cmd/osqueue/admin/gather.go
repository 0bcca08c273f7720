package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/view"
	"osqueue/storage"
	"osqueue/storage/bucketurl"
	"osqueue/storage/detach"
	"osqueue/storage/probe"
)

// snapshot is what doctor has gathered, for the checks.
type snapshot struct {
	nodes  []examined
	queue  figures
	bucket *probed // nil: without --bucket
}

// examined is a node that was asked. Without Err, Status is its status.
type examined struct {
	client.NodeStatus
	metrics    map[string]*dto.MetricFamily
	metricsErr error
}

// figures are those of the whole queue.
type figures struct {
	stats   v1.Stats // with types
	history v1.History
	queues  []v1.Queue
	err     error // why some of them are not there
}

// probed is the outcome of the probe of the bucket from this machine.
type probed struct {
	url string // without secrets
	err error
}

// gather asks all nodes at the same time. Each step takes at most --timeout, and a node that hangs delays no other one.
func gather(ctx context.Context, g *view.Globals, c *client.Client, bucket string) (*snapshot, error) {
	hc, err := g.HTTPClient()
	if err != nil {
		return nil, err
	}
	defer hc.CloseIdleConnections()
	s := &snapshot{}
	statuses, err := everyNode(ctx, g, c)
	if err != nil {
		return nil, err
	}
	var wg sync.WaitGroup
	s.nodes = make([]examined, len(statuses))
	for i, status := range statuses {
		n := &s.nodes[i]
		if n.NodeStatus = status; status.Err == nil {
			wg.Go(func() { n.metrics, n.metricsErr = scrape(ctx, g, hc, status.Server) })
		}
	}
	wg.Go(func() { s.queue.ask(ctx, g, c) })
	if bucket != "" {
		wg.Go(func() { s.bucket = probeBucket(ctx, g, bucket) })
	}
	wg.Wait()
	return s, ctx.Err()
}

// everyNode asks the servers of the command for their status, and then the members that only these know. A command that
// uses the admin socket of a node asks no other one.
func everyNode(ctx context.Context, g *view.Globals, c *client.Client) ([]client.NodeStatus, error) {
	first, cancel := context.WithTimeout(ctx, g.Timeout)
	defer cancel()
	nodes := c.StatusAll(first)
	if socket, err := g.Socket(); err != nil || socket != "" {
		return nodes, err
	}
	others := unasked(nodes)
	if len(others) == 0 {
		return nodes, nil
	}
	more, err := g.ClientWith(func(cfg *client.Config) { cfg.Servers = others })
	if err != nil {
		return nodes, err
	}
	defer more.Close()
	second, cancel := context.WithTimeout(ctx, g.Timeout)
	defer cancel()
	return append(nodes, more.StatusAll(second)...), nil
}

// unasked returns the HTTP addresses of the members that were not asked.
func unasked(nodes []client.NodeStatus) (addresses []string) {
	list, _ := members(nodes)
	for _, p := range list {
		asked := func(n client.NodeStatus) bool {
			return hostOf(n.Server) == p.HTTPAddress || n.Err == nil && n.Status.NodeID == p.Name
		}
		if p.HTTPAddress != "" && !slices.ContainsFunc(nodes, asked) {
			addresses = append(addresses, p.HTTPAddress)
		}
	}
	return addresses
}

// errNoRight is wrapped by the error of a request that needs a token, or another one.
var errNoRight = errors.New("the caller may not read that")

// partBytes bounds an answer of a node.
const partBytes = 16 << 20

// fetch returns the answer of a server to GET, within --timeout and the time that the server was asked to take.
func fetch(ctx context.Context, hc *http.Client, target string, limit time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, target, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := hc.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, partBytes+1))
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode == http.StatusUnauthorized, resp.StatusCode == http.StatusForbidden:
		return nil, fmt.Errorf("%w (%s)", errNoRight, resp.Status)
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("the node answers %s", resp.Status)
	case len(body) > partBytes:
		return nil, fmt.Errorf("the answer has more than %s", view.BytesText(partBytes))
	}
	return body, nil
}

// scrape returns the metrics of a node.
func scrape(ctx context.Context, g *view.Globals, hc *http.Client, server string) (map[string]*dto.MetricFamily, error) {
	text, err := fetch(ctx, hc, server+v1.PathMetrics, g.Timeout)
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(strings.NewReader(string(text)))
}

// historyMinutes is the time in which doctor looks for dead jobs.
const historyMinutes = 60

// ask gets the figures from the cluster.
func (f *figures) ask(ctx context.Context, g *view.Globals, c *client.Client) {
	ctx, cancel := context.WithTimeout(ctx, g.Timeout)
	defer cancel()
	if f.stats, f.err = c.StatsByType(ctx); f.err != nil {
		return
	}
	if f.history, f.err = c.History(ctx, "", historyMinutes); f.err != nil {
		return
	}
	for q, err := range c.Queues(ctx, "") {
		if err != nil {
			f.err = err
			return
		}
		f.queues = append(f.queues, q)
	}
}

// probeBucket runs the probe of a node on the bucket.
func probeBucket(ctx context.Context, g *view.Globals, bucket string) *probed {
	out := &probed{url: "the bucket"}
	if u, err := url.Parse(bucket); err == nil {
		out.url = storage.RedactURL(u)
	}
	b, err := bucketurl.OpenKnown(ctx, bucket)
	if err != nil {
		out.err = err
		return out
	}
	ctx, cancel := context.WithTimeout(ctx, g.Timeout)
	defer cancel()
	b = detach.New(b) // a directory on a mount may hang
	out.err = errors.Join(probe.Run(ctx, b), b.Close())
	return out
}

// metric returns the series of a metric that has these labels (name, value, …), or nil.
func (n *examined) metric(name string, labels ...string) *dto.Metric {
	for _, m := range n.metrics[name].GetMetric() {
		has := func(label, value string) bool {
			return slices.ContainsFunc(m.Label, func(p *dto.LabelPair) bool { return p.GetName() == label && p.GetValue() == value })
		}
		found := true
		for i := 0; i < len(labels); i += 2 {
			found = found && has(labels[i], labels[i+1])
		}
		if found {
			return m
		}
	}
	return nil
}

// gauge returns the value of a gauge; ok is false if the node has none.
func (n *examined) gauge(name string) (value float64, ok bool) {
	m := n.metric(name)
	return m.GetGauge().GetValue(), m != nil
}

// quantile returns what the q-th part of the values of a histogram do not exceed, rounded down to the bound of a bucket,
// and the number of values.
func quantile(h *dto.Histogram, q float64) (least float64, count uint64) {
	count = h.GetSampleCount()
	for _, b := range h.GetBucket() {
		if float64(b.GetCumulativeCount()) >= q*float64(count) {
			break
		}
		least = b.GetUpperBound()
	}
	return least, count
}
