package client_test

import (
	"errors"
	"fmt"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
)

// A job that must survive the loss of every node is enqueued with AckObject. If the
// bucket takes too long, the write is committed, and you can wait for it later.
func ExampleWithAck() {
	ctx, c, stop := exampleClient()
	defer stop()
	got, err := c.Enqueue(client.WithAck(ctx, client.AckObject), client.NewJob{ID: "order-1842", Type: "invoice"})
	if err == nil && got.Committed != client.AckObject {
		_, err = c.WaitLSN(ctx, got.LSN, client.AckObject) // as long as ctx lasts
	}
	check(err)
	fmt.Println(got.JobID, got.Committed)
	// Output: order-1842 object
}

// A receipt tells how safe those writes are whose results do not.
func ExampleWithReceipt() {
	ctx, c, stop := exampleClient()
	defer stop()
	var r client.Receipt
	check(c.RegisterWorker(client.WithReceipt(ctx, &r), client.WorkerInfo{Name: "w1"}))
	fmt.Println(r.LSN() != "", r.Committed())
	// Output: true quorum
}

// Wait later until all earlier writes are in the bucket.
func ExampleClient_WaitLSN() {
	ctx, c, stop := exampleClient()
	defer stop()
	got, err := c.EnqueueBatch(ctx, []client.NewJob{{Type: "row"}, {Type: "row"}})
	check(err)
	at, err := c.WaitLSN(ctx, got.LSN, client.AckObject)
	check(err)
	fmt.Println(at.LSN == got.LSN, at.Level)
	// Output: true object
}

// While writes are refused because the bucket is too far behind, the error says
// so, and why.
func ExampleHasTag_bucketAway() {
	err := error(&client.Error{Op: "enqueue", Tag: v1.TagFlushLag, Message: "the bucket is 5m1s behind: connection refused"})
	if client.HasTag(err, v1.TagFlushLag) {
		var e *client.Error
		errors.As(err, &e)
		fmt.Println(e.Message)
	}
	// Output: the bucket is 5m1s behind: connection refused
}
