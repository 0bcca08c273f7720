//go:build unix

package gcs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestEndpointNeedsNoCredentials has the credentials in a pipe without a writer: a
// program that looks for them waits.
func TestEndpointNeedsNoCredentials(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "credentials.json")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", pipe)
	opened := make(chan *Bucket)
	go func() { opened <- openURL(t, "gs://bucket?endpoint=http://127.0.0.1:9") }()
	patience := time.NewTimer(10 * time.Second)
	defer patience.Stop()
	select {
	case b := <-opened:
		b.Close()
		return
	case <-patience.C:
		t.Error("it looks for credentials")
	}
	for tick := time.NewTicker(10 * time.Millisecond); ; { // let it find them empty, as often as it looks
		select {
		case b := <-opened:
			tick.Stop()
			b.Close()
			return
		case <-tick.C:
			if f, err := os.OpenFile(pipe, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
				f.Close()
			}
		}
	}
}

// TestASearchThatHangs has the credentials in a pipe without a writer, too: each request waits for
// them as long as its own context lives.
func TestASearchThatHangs(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "credentials.json")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", pipe)
	r := &rotating{}
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		if _, err := r.store(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it returns %v", err)
		}
		r.refuse()
		cancel()
	}
	f, err := os.OpenFile(pipe, os.O_WRONLY, 0) // waits for the search, and ends it
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	<-r.search.DoChan("", func() (any, error) { return nil, nil })
}
