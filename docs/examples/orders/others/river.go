//go:build ignore

// The orders with River and Postgres: results, signals and files are in a row of each order. The tables are those of
// "river migrate-up", and
//
//	CREATE TABLE orders (id text PRIMARY KEY, done jsonb NOT NULL DEFAULT '{}', pdf text)
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
)

// pdf has a line of text on a page.
const pdf = "%%PDF-1.4\n1 0 obj<</Pages 2 0 R>>endobj 2 0 obj<</Kids[3 0 R]/Count 1>>endobj 3 0 obj<</Parent 2 0 R/Type/Page" +
	"/MediaBox[0 0 400 60]/Contents 4 0 R/Resources<</Font<</F<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>>>endobj " +
	"4 0 obj<</Length %d>>stream\nBT/F 9 Tf 10 30 Td(%s)Tj ET\nendstream endobj trailer<</Root 1 0 R>>\n"

type order struct{ ID, Customer string }

type (
	chargeArgs  struct{ order }
	invoiceArgs struct{ order }
	packArgs    struct{ order }
	expireArgs  struct{ order }
	shipArgs    struct{ order }
)

func (chargeArgs) Kind() string  { return "charge" }
func (invoiceArgs) Kind() string { return "invoice" }
func (packArgs) Kind() string    { return "pack" }
func (expireArgs) Kind() string  { return "expire" }
func (shipArgs) Kind() string    { return "ship" }

var (
	db    *pgxpool.Pool
	queue *river.Client[pgx.Tx]
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	db, err = pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	check(err)
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(charge))
	river.AddWorker(workers, river.WorkFunc(invoice))
	river.AddWorker(workers, river.WorkFunc(pack))
	river.AddWorker(workers, river.WorkFunc(expire))
	river.AddWorker(workers, river.WorkFunc(ship))
	queue, err = river.NewClient(riverpgxv5.New(db), &river.Config{
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 4}}, Workers: workers,
	})
	check(err)
	switch os.Args[1] {
	case "submit":
		o := order{os.Args[2], os.Args[3]}
		_, err = db.Exec(ctx, "INSERT INTO orders (id, done) VALUES ($1, jsonb_build_object('customer', $2::text)) ON CONFLICT DO NOTHING", o.ID, o.Customer)
		check(err)
		check(enqueue(ctx, chargeArgs{o}, time.Now()))
	case "approve":
		done, err := put(ctx, os.Args[2], "approve", os.Args[3])
		check(err)
		check(proceed(ctx, order{os.Args[2], done["customer"]}, done))
	default:
		check(queue.Start(ctx))
		<-queue.Stopped()
	}
}

// enqueue adds a job of an order once.
func enqueue(ctx context.Context, args river.JobArgs, at time.Time) error {
	_, err := queue.Insert(ctx, args, &river.InsertOpts{ScheduledAt: at, UniqueOpts: river.UniqueOpts{ByArgs: true}})
	return err
}

// put stores a value of an order, unless it has one of the name, and returns all.
func put(ctx context.Context, id, name, value string) (done map[string]string, err error) {
	err = db.QueryRow(ctx, "UPDATE orders SET done = jsonb_build_object($2::text, $3::text) || done WHERE id = $1 RETURNING done", id, name, value).Scan(&done)
	return done, err
}

// step calls fn unless its result is stored.
func step(ctx context.Context, o order, name string) (done map[string]string, err error) {
	err = db.QueryRow(ctx, "SELECT done FROM orders WHERE id = $1", o.ID).Scan(&done)
	if err != nil || done[name] != "" {
		return done, err
	}
	result, err := call(name, o)
	if err != nil {
		return nil, err
	}
	return put(ctx, o.ID, name, result)
}

func charge(ctx context.Context, job *river.Job[chargeArgs]) error {
	conn, err := db.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	const lock = "CASE WHEN pg_try_advisory_lock(hashtext($1), 1) THEN 1 WHEN pg_try_advisory_lock(hashtext($1), 2) THEN 2 ELSE 0 END"
	var slot int
	switch err := conn.QueryRow(ctx, "SELECT "+lock, job.Args.Customer).Scan(&slot); {
	case err != nil:
		return err
	case slot == 0: // two cards of the customer are being charged
		return river.JobSnooze(time.Second)
	}
	defer conn.Exec(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock(hashtext($1), $2)", job.Args.Customer, slot)
	for _, name := range []string{"charge", "receipt"} {
		if _, err := step(ctx, job.Args.order, name); err != nil {
			return err
		}
	}
	return errors.Join(enqueue(ctx, invoiceArgs{job.Args.order}, time.Now()), enqueue(ctx, packArgs{job.Args.order}, time.Now()))
}

func invoice(ctx context.Context, job *river.Job[invoiceArgs]) error {
	o, paid := job.Args.order, ""
	if err := db.QueryRow(ctx, "SELECT done->>'charge' FROM orders WHERE id = $1", o.ID).Scan(&paid); err != nil {
		return err
	}
	text := "invoice of " + o.ID + ", paid by " + paid
	if _, err := db.Exec(ctx, "UPDATE orders SET pdf = $2 WHERE id = $1", o.ID, fmt.Sprintf(pdf, 25+len(text), text)); err != nil {
		return err
	}
	return result(ctx, o, "invoice", text)
}

func pack(ctx context.Context, job *river.Job[packArgs]) error {
	return result(ctx, job.Args.order, "pack", "parcel of "+job.Args.ID)
}

func result(ctx context.Context, o order, name, text string) error {
	done, err := put(ctx, o.ID, name, text)
	if err != nil {
		return err
	}
	return proceed(ctx, o, done)
}

// proceed is called after each change: the last one finds all that the next job needs.
func proceed(ctx context.Context, o order, done map[string]string) error {
	by, approved := done["approve"]
	switch {
	case done["invoice"] == "" || done["pack"] == "" || approved && by == "":
		return nil
	case !approved:
		return enqueue(ctx, expireArgs{o}, time.Now().Add(24*time.Hour))
	}
	return enqueue(ctx, shipArgs{o}, time.Now())
}

// expire takes the place of the approval.
func expire(ctx context.Context, job *river.Job[expireArgs]) error {
	done, err := put(ctx, job.Args.ID, "approve", "")
	if err != nil || done["approve"] != "" {
		return err
	}
	return river.JobCancel(errors.New(job.Args.ID + " was not approved in time"))
}

func ship(ctx context.Context, job *river.Job[shipArgs]) error {
	done, err := step(ctx, job.Args.order, "ship")
	if err != nil {
		return err
	}
	return river.RecordOutput(ctx, []string{done["ship"], done["pack"], done["invoice"], "approved by " + done["approve"]})
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
