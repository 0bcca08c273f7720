package api

import (
	"bytes"
	"log" //nolint:depguard // net/http wants one
	"sync/atomic"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/time/rate"
)

// Bounds of the lines that net/http logs about connections.
const (
	errorLines = 1 // a second
	errorBurst = 20
)

// errorLog writes what net/http reports to a log. Strangers can cause a line with each connection, for
// example when it is not TLS, so their number is bounded: they must not fill the disk. The first line
// after a gap says how many were left out. Panics are all logged.
type errorLog struct {
	log     hclog.Logger
	limit   *rate.Limiter
	skipped atomic.Int64
}

func newErrorLog(l hclog.Logger) *log.Logger {
	return log.New(&errorLog{log: l, limit: rate.NewLimiter(errorLines, errorBurst)}, "", 0)
}

// Write implements io.Writer for one line.
func (e *errorLog) Write(line []byte) (int, error) {
	text := string(bytes.TrimSpace(line))
	switch {
	case bytes.HasPrefix(line, []byte("http: panic serving")):
		e.log.Error(text)
	case !e.limit.Allow():
		e.skipped.Add(1)
	default:
		if n := e.skipped.Swap(0); n > 0 {
			e.log.Info(text, "skipped", n)
		} else {
			e.log.Info(text)
		}
	}
	return len(line), nil
}
