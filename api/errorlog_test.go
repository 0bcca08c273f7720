package api

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/time/rate"
)

// Lines that strangers can cause are bounded and counted; panics are all logged.
func TestErrorLogIsBounded(t *testing.T) {
	var out bytes.Buffer
	std := newErrorLog(hclog.New(&hclog.LoggerOptions{Output: &out}))
	e := std.Writer().(*errorLog)
	e.limit = rate.NewLimiter(rate.Every(time.Hour), errorBurst)
	for i := range 1000 {
		std.Printf("http: TLS handshake error from 127.0.0.1:%d: tls: client offered only unsupported versions: [%x]", i, i)
	}
	if n := strings.Count(out.String(), "handshake error"); n != errorBurst {
		t.Errorf("%d lines of 1000 connections, want %d", n, errorBurst)
	}
	for range 5 {
		std.Print("http: panic serving 127.0.0.1:1: oops\nstack")
	}
	if n := strings.Count(out.String(), "[ERROR] http: panic"); n != 5 {
		t.Errorf("%d lines of 5 panics:\n%s", n, out.String())
	}
	e.limit = rate.NewLimiter(rate.Inf, 0)
	std.Print("http: TLS handshake error from 127.0.0.1:1: EOF")
	if want := fmt.Sprintf("EOF: skipped=%d\n", 1000-errorBurst); !strings.HasSuffix(out.String(), want) {
		t.Errorf("the log does not end with %q:\n%s", want, out.String()[max(0, out.Len()-200):])
	}
}
