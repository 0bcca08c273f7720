package legacy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"osqueue/storage/bucketurl"
)

// errDeposed ends a broker without the defect.
var errDeposed = errors.New("another broker is registered: this one ends")

// NotElectedError is the reason why a broker does not start.
type NotElectedError struct{ Result }

// Error implements error.
func (e *NotElectedError) Error() string {
	if e.Status == Conflict {
		return "the election was lost"
	}
	return fmt.Sprintf("another broker is active: %s. Cannot start", e.Leader)
}

// Serve runs a broker. It takes part in the election and, if elected, serves until ctx
// ends or another broker deposes it. serving, if it is not nil, is called when the broker
// accepts requests.
func Serve(ctx context.Context, cfg Config, serving func()) error {
	cfg = cfg.withDefaults()
	for {
		err := serve(ctx, cfg, serving)
		if cfg.Retry == 0 || ctx.Err() != nil {
			return err
		}
		select {
		case <-time.After(cfg.Retry):
		case <-ctx.Done():
			return err
		}
	}
}

func serve(ctx context.Context, cfg Config, serving func()) error {
	if cfg.Heartbeat >= cfg.Timeout {
		return fmt.Errorf("a heartbeat each %v is too late for a timeout of %v", cfg.Heartbeat, cfg.Timeout)
	}
	b, err := bucketurl.Open(ctx, cfg.Bucket)
	if err != nil {
		return err
	}
	defer func() { _ = b.Close() }()
	result, err := cfg.TryElect(ctx, b, time.Now().UnixMilli())
	if err != nil {
		return fmt.Errorf("elect: %w", err)
	}
	if result.Status == OtherLeader || result.Status == Conflict {
		return &NotElectedError{result}
	}
	e := newEngine(cfg, b)
	if err := e.load(ctx); err != nil {
		return fmt.Errorf("load the document: %w", err)
	}
	return (&broker{cfg: cfg, engine: e}).run(ctx, serving)
}

// broker is an elected broker.
type broker struct {
	cfg    Config
	engine *engine
}

func (b *broker) run(ctx context.Context, serving func()) error {
	running, end := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.engine.run(running)
	}()
	defer func() {
		end()
		<-ended
	}()
	if err := b.engine.submit(b.register); err != nil {
		return fmt.Errorf("register: %w", err)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", b.cfg.Address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: b.routes(), ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	if serving != nil {
		serving()
	}
	err = b.beat(ctx)
	_ = server.Close()
	<-failed
	return err
}

// register returns the operation of a heartbeat.
func (b *broker) register(d *parsed, now float64) error {
	if registered, _ := d.get("broker"); !b.cfg.TakesBack && !same(registered, b.cfg.Address) {
		return errDeposed
	}
	d.register(b.cfg.Address, now)
	return nil
}

// beat writes heartbeats until ctx ends. It continues after one that fails.
func (b *broker) beat(ctx context.Context) error {
	tick := time.NewTicker(b.cfg.Heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		if err := b.engine.submit(b.register); errors.Is(err, errDeposed) {
			return err
		}
		// With the defect this is always true: the broker has just registered.
		if leads, err := b.cfg.CheckLeadership(ctx, b.engine.bucket); err == nil && !leads {
			return errDeposed
		}
	}
}
