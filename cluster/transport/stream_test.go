package transport

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// The deadline of a connection is extended while a request makes progress; a request
// without progress fails.
func TestPacedConn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer near.Close()
		defer far.Close()
		c := &pacedConn{Conn: near}
		if err := c.SetDeadline(time.Now().Add(ConnTimeout)); err != nil {
			t.Fatal(err)
		}
		go func() {
			buf := make([]byte, pacedBytes)
			for range 16 {
				time.Sleep(ConnTimeout / 2)
				for n := 0; n < len(buf); {
					m, err := far.Read(buf[n:])
					if err != nil {
						return
					}
					n += m
				}
			}
		}()
		if n, err := c.Write(make([]byte, 16*pacedBytes)); err != nil || n != 16*pacedBytes {
			t.Errorf("a slow request: %d bytes, %v", n, err)
		}
		begun := time.Now()
		if _, err := c.Write(make([]byte, pacedBytes)); err == nil || time.Since(begun) > ConnTimeout {
			t.Errorf("a request that stands still: %v after %v", err, time.Since(begun))
		}
	})
}

// TestPacedConnWaitsForTheAnswer: the answer to a large request, which waits in a buffer
// of a slow link, has time until the link has carried the request. An answer that never
// comes ends the wait, soon after a small request.
func TestPacedConnWaitsForTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer near.Close()
		defer far.Close()
		go func() { _, _ = io.Copy(io.Discard, far) }()
		c := &pacedConn{Conn: near}
		ask := func(size int, answer time.Duration) (time.Duration, error) {
			if err := c.SetDeadline(time.Now().Add(ConnTimeout)); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Write(make([]byte, size)); err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			if answer > 0 {
				go func() {
					time.Sleep(answer)
					_, _ = far.Write([]byte("k"))
				}()
			}
			_, err := c.Read(make([]byte, 1))
			return time.Since(begun), err
		}
		if took, err := ask(AppendMaxBytes, 40*time.Second); err != nil {
			t.Errorf("the answer to 4 MiB over 100 KiB/s: %v after %v", err, took)
		}
		if took, err := ask(1000, 0); err == nil || took > ConnTimeout+time.Second {
			t.Errorf("no answer to a small request: %v after %v", err, took)
		}
		if took, err := ask(AppendMaxBytes, 0); err == nil || took > 70*time.Second {
			t.Errorf("no answer to 4 MiB: %v after %v", err, took)
		}
	})
}
