//go:build ignore

// The orders with asynq and Redis: results, signals and files are in a hash of each order.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// pdf has a line of text on a page.
const pdf = "%%PDF-1.4\n1 0 obj<</Pages 2 0 R>>endobj 2 0 obj<</Kids[3 0 R]/Count 1>>endobj 3 0 obj<</Parent 2 0 R/Type/Page" +
	"/MediaBox[0 0 400 60]/Contents 4 0 R/Resources<</Font<</F<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>>>endobj " +
	"4 0 obj<</Length %d>>stream\nBT/F 9 Tf 10 30 Td(%s)Tj ET\nendstream endobj trailer<</Root 1 0 R>>\n"

type order struct{ ID, Customer string }

func (o order) key() string { return "order:" + o.ID }

var (
	at      = asynq.RedisClientOpt{Addr: cmp.Or(os.Getenv("REDIS"), "127.0.0.1:6379")}
	tasks   = asynq.NewClient(at)
	state   = redis.NewClient(&redis.Options{Addr: at.Addr})
	errBusy = errors.New("two cards of the customer are being charged")
)

func main() {
	ctx := context.Background()
	switch os.Args[1] {
	case "submit":
		o := order{os.Args[2], os.Args[3]}
		check(state.HSet(ctx, o.key(), "customer", o.Customer).Err())
		check(enqueue("charge", o))
	case "approve":
		customer, err := state.HGet(ctx, "order:"+os.Args[2], "customer").Result()
		check(err)
		o := order{os.Args[2], customer}
		check(state.HSetNX(ctx, o.key(), "approve", os.Args[3]).Err())
		check(proceed(ctx, o))
	default:
		work()
	}
}

func work() {
	mux := asynq.NewServeMux()
	for kind, fn := range map[string]func(context.Context, order) error{
		"charge": charge, "invoice": invoice, "pack": pack, "expire": expire, "ship": ship,
	} {
		mux.HandleFunc(kind, func(ctx context.Context, t *asynq.Task) error {
			var o order
			if err := json.Unmarshal(t.Payload(), &o); err != nil {
				return err
			}
			return fn(ctx, o)
		})
	}
	check(asynq.NewServer(at, asynq.Config{
		Concurrency: 4,
		IsFailure:   func(err error) bool { return !errors.Is(err, errBusy) },
		RetryDelayFunc: func(n int, err error, t *asynq.Task) time.Duration {
			if errors.Is(err, errBusy) {
				return time.Second
			}
			return asynq.DefaultRetryDelayFunc(n, err, t)
		},
	}).Run(mux))
}

// enqueue adds a task of an order once: its id is taken while it is retained.
func enqueue(kind string, o order, opts ...asynq.Option) error {
	payload, err := json.Marshal(o)
	if err != nil {
		return err
	}
	opts = append(opts, asynq.TaskID(kind+":"+o.ID), asynq.Retention(7*24*time.Hour))
	if _, err = tasks.Enqueue(asynq.NewTask(kind, payload), opts...); errors.Is(err, asynq.ErrTaskIDConflict) {
		return nil
	}
	return err
}

// step calls fn unless its result is stored.
func step(ctx context.Context, o order, name string, fn func() (string, error)) (string, error) {
	kept, err := state.HGet(ctx, o.key(), name).Result()
	if !errors.Is(err, redis.Nil) {
		return kept, err
	}
	if kept, err = fn(); err != nil {
		return "", err
	}
	return kept, state.HSet(ctx, o.key(), name, kept).Err()
}

// take returns one of the two slots of a customer. Redis frees that of a killed worker after a minute.
func take(ctx context.Context, o order) (string, error) {
	for _, slot := range []string{"slot:" + o.Customer + ":1", "slot:" + o.Customer + ":2"} {
		if free, err := state.SetNX(ctx, slot, o.ID, time.Minute).Result(); err != nil || free {
			return slot, err
		}
	}
	return "", errBusy
}

func charge(ctx context.Context, o order) error {
	slot, err := take(ctx, o)
	if err != nil {
		return err
	}
	defer state.Del(context.WithoutCancel(ctx), slot)
	for _, name := range []string{"charge", "receipt"} {
		if _, err := step(ctx, o, name, func() (string, error) { return call(name, o) }); err != nil {
			return err
		}
	}
	return errors.Join(enqueue("invoice", o), enqueue("pack", o))
}

func invoice(ctx context.Context, o order) error {
	paid, err := state.HGet(ctx, o.key(), "charge").Result()
	if err != nil {
		return err
	}
	text := "invoice of " + o.ID + ", paid by " + paid
	if err := state.HSet(ctx, o.key(), "invoice", text, "invoice.pdf", fmt.Sprintf(pdf, 25+len(text), text)).Err(); err != nil {
		return err
	}
	return proceed(ctx, o)
}

func pack(ctx context.Context, o order) error {
	if err := state.HSet(ctx, o.key(), "pack", "parcel of "+o.ID).Err(); err != nil {
		return err
	}
	return proceed(ctx, o)
}

// proceed is called after each change: the last one finds all that the next task needs.
func proceed(ctx context.Context, o order) error {
	got, err := state.HMGet(ctx, o.key(), "invoice", "pack", "approve").Result()
	switch {
	case err != nil || got[0] == nil || got[1] == nil:
		return err
	case got[2] == nil:
		return enqueue("expire", o, asynq.ProcessIn(24*time.Hour))
	case got[2] == "":
		return nil
	}
	return enqueue("ship", o)
}

// expire takes the place of the approval.
func expire(ctx context.Context, o order) error {
	if late, err := state.HSetNX(ctx, o.key(), "approve", "").Result(); err != nil || !late {
		return err
	}
	return fmt.Errorf("%s was not approved in time: %w", o.ID, asynq.SkipRetry)
}

func ship(ctx context.Context, o order) error {
	sent, err := step(ctx, o, "ship", func() (string, error) { return call("ship", o) })
	if err != nil {
		return err
	}
	got, err := state.HMGet(ctx, o.key(), "pack", "invoice", "approve").Result()
	if err != nil {
		return err
	}
	return state.HSet(ctx, o.key(), "result", fmt.Sprintf("%s, %s, %s, approved by %s", append([]any{sent}, got...)...)).Err()
}

// call stands for a call of another system. It notes its begin and end in orders.log.
func call(what string, o order) (string, error) {
	file, err := os.OpenFile("orders.log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	_, begin := fmt.Fprintln(file, "begin", what, o.ID, o.Customer, os.Getpid())
	time.Sleep(200 * time.Millisecond)
	_, end := fmt.Fprintln(file, "end", what, o.ID, o.Customer, os.Getpid())
	return what + " of " + o.ID, errors.Join(begin, end, file.Close())
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "orders:", err)
		os.Exit(1)
	}
}
