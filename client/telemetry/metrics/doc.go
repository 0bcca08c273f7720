// Package metrics has the figures of a Go worker for Prometheus. It is in a module of its own, so
// that a program without it does not depend on Prometheus.
//
//	m := metrics.New(metrics.Config{Capacity: 16})
//	w, err := worker.New(m.Queue(c), worker.Config{Concurrency: 16, Finished: m.Finished})
//	w.Use(m.Middleware)
//	prometheus.MustRegister(m)
//
// Queue stands between the worker and the cluster and counts claims and heartbeats; Middleware
// counts the handlers that run, and Finished the outcomes. Each costs a few atomic additions. The types
// of jobs are bounded: the first TypesMax have labels of their own, all others share "other".
// "~" is the label of jobs without type, as in the metrics of the server.
package metrics
