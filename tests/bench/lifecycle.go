package main

// lifecycle enqueues, claims and completes jobs, 100 per call.
func (b *bench) lifecycle() error {
	return b.withBrokers("lifecycle", func(br *brokers) error {
		l, err := br.load(batchClients, b.duration, throughLife(br.leader.HTTP))
		if err != nil {
			return err
		}
		b.report.add(figure{
			Section: "lifecycle", Name: "enqueue, claim, complete, 100 a call", Value: l.rate, Unit: "jobs/s",
			Beside: besideBare(l.rate, b.bareBatchRate), Cost: l.cost,
		})
		return nil
	})
}

// taken has the fields of a claim's answer that a completion needs.
type taken struct {
	Jobs []struct {
		ID    string `json:"jobId"`
		Token uint64 `json:"token"`
	} `json:"jobs"`
}

type completion struct {
	WorkerID string         `json:"workerId"`
	Jobs     []completedJob `json:"jobs"`
}

type completedJob struct {
	JobID string `json:"jobId"`
	Token uint64 `json:"token"`
}

func throughLife(host string) step {
	enqueue := enqueueBatch(host, jobsInBatch)
	return func(c *conn) (int, error) {
		if _, err := enqueue(c); err != nil {
			return 0, err
		}
		return claimAndComplete(c, jobsInBatch)
	}
}
