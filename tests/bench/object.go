package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"osqueue/tests/cluster"
	"osqueue/tests/measure"
)

// An S3 server of the section object answers after storeLeast to storeMost, as S3 does.
const (
	storeLeast = 100 * time.Millisecond
	storeMost  = 200 * time.Millisecond
)

// object measures writes that are answered when they are in the bucket.
func (b *bench) object() error {
	stored := s3mem.New()
	if err := stored.CreateBucket("bench"); err != nil {
		return err
	}
	s3 := gofakes3.New(stored).Server()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(storeLeast + rand.N(storeMost-storeLeast))
		s3.ServeHTTP(w, r)
	}))
	defer server.Close()
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} { // the brokers inherit them
		if err := os.Setenv(name, "bench"); err != nil {
			return err
		}
	}
	for _, clients := range []int{1, singleClients} {
		bucket := fmt.Sprintf("s3://bench/%d?region=us-east-1&endpoint=%s", clients, server.URL)
		err := b.withClusterOf(cluster.Options{Bucket: bucket, Flags: []string{"--flush-interval", "1s"}}, func(br *brokers) error {
			request := strict.post(br.leader.HTTP, "/v1/jobs?ack=object", []byte(oneJob))
			l, err := br.load(clients, 6*b.duration, func(c *conn) (int, error) {
				_, err := c.do(request)
				return 1, err
			})
			if err != nil {
				return err
			}
			for _, p := range []struct{ percent, aim float64 }{{50, 250}, {99, 500}} {
				took := measure.Milliseconds(l.took.At(p.percent))
				f := figure{
					Section: "object", Name: fmt.Sprintf("%d clients, ack=object, p%g", clients, p.percent), Value: took, Unit: "ms", Cost: l.cost,
				}
				b.report.add(f.atMost(p.aim, "ms", took))
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
