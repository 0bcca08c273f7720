// Orders charges, packs and ships orders, after a human has approved them: see README.md.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"osqueue/client"
	"osqueue/client/worker"
)

// pdf has a line of text on a page.
const pdf = "%%PDF-1.4\n1 0 obj<</Pages 2 0 R>>endobj 2 0 obj<</Kids[3 0 R]/Count 1>>endobj 3 0 obj<</Parent 2 0 R/Type/Page" +
	"/MediaBox[0 0 400 60]/Contents 4 0 R/Resources<</Font<</F<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>>>endobj " +
	"4 0 obj<</Length %d>>stream\nBT/F 9 Tf 10 30 Td(%s)Tj ET\nendstream endobj trailer<</Root 1 0 R>>\n"

type order struct {
	ID       string `json:"id"`
	Customer string `json:"customer"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cfg, err := client.FromContext("")
	check(err)
	c, err := client.New(cfg)
	check(err)
	if os.Args[1] == "submit" {
		submit(ctx, c, order{ID: os.Args[2], Customer: os.Args[3]})
		return
	}
	w, err := worker.New(c, worker.Config{Concurrency: 4})
	check(err)
	w.Handle("charge", worker.JSON(charge))
	w.Handle("invoice", worker.JSON(invoice))
	w.Handle("pack", worker.JSON(func(_ context.Context, _ worker.Job, o order) (string, error) { return "parcel of " + o.ID, nil }))
	w.Handle("approve", approve)
	w.Handle("ship", worker.JSON(ship))
	check(w.Run(ctx))
}

func submit(ctx context.Context, c *client.Client, o order) {
	payload, err := json.Marshal(o)
	check(err)
	flow := client.Flow{ID: o.ID}
	flow.Step("charge", client.NewJob{Type: "charge", Payload: payload, Limits: []string{"customer:" + o.Customer}})
	flow.Step("invoice", client.NewJob{Type: "invoice", Payload: payload}, "charge")
	flow.Step("pack", client.NewJob{Type: "pack", Payload: payload}, "charge")
	flow.Step("approve", client.NewJob{Type: "approve", Payload: payload}, "invoice", "pack")
	flow.Step("ship", client.NewJob{Type: "ship", Payload: payload, AfterFailure: "cancel"}, "invoice", "pack", "approve")
	_, err = flow.Start(ctx, c)
	check(err)
	link, err := c.MakeLink(ctx, flow.StepID("approve"), "approved", 24*time.Hour)
	check(err)
	_, err = fmt.Fprintln(os.Stdout, link.Path)
	check(err)
}

// charge charges the card once, also if the attempt ends before the receipt is sent.
func charge(ctx context.Context, job worker.Job, o order) (string, error) {
	paid, err := worker.Step(ctx, job, "charge", func(context.Context) (string, error) { return call("charge", o) })
	if err != nil {
		return "", err
	}
	_, err = worker.Step(ctx, job, "receipt", func(context.Context) (string, error) { return call("receipt", o) })
	return paid, err
}

// invoice keeps the file as an artefact: osqueue job get ORDER.invoice invoice.pdf.
func invoice(ctx context.Context, job worker.Job, o order) (string, error) {
	text := "invoice of " + o.ID + ", paid by " + earlier(job, "charge")
	return text, job.Put(ctx, "invoice.pdf", strings.NewReader(fmt.Sprintf(pdf, 25+len(text), text)))
}

func approve(ctx context.Context, job worker.Job) (json.RawMessage, error) {
	by, err := job.WaitSignal(ctx, "approved", 24*time.Hour)
	if errors.Is(err, worker.ErrNoSignal) {
		err = worker.Permanent(err)
	}
	return by, err
}

func ship(ctx context.Context, job worker.Job, o order) ([]string, error) {
	sent, err := worker.Step(ctx, job, "ship", func(context.Context) (string, error) { return call("ship", o) })
	return []string{sent, earlier(job, "pack"), earlier(job, "invoice"), "approved by " + earlier(job, "approve")}, err
}

// earlier returns the result of an earlier step of the flow; that of a signal by a link is empty.
func earlier(job worker.Job, step string) (text string) {
	parent, _ := job.Parent(step)
	_ = json.Unmarshal(parent.Result, &text)
	return text
}

// call stands for a call of another system, whose idempotency key would be the two. It notes its begin and end in orders.log.
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
