// Command s3 is an S3 server in memory, for containers that need an endpoint.
// It listens on port 9000 and knows one bucket, "jobs".
package main

import (
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

func main() {
	backend := s3mem.New()
	err := backend.CreateBucket("jobs")
	if err == nil {
		server := &http.Server{Addr: ":9000", Handler: gofakes3.New(backend).Server(), ReadHeaderTimeout: 5 * time.Second}
		err = server.ListenAndServe()
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
