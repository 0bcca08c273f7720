// Package store gives tests their bucket: one of four stores, with a proxy in
// front of those that speak HTTP, which makes it behave as badly as stores do.
//
// # Problem
//
// A cluster's promises about its bucket have to hold on every kind of store. The stores
// that a test can start never refuse, throttle, lose an answer or apply a write after
// its client has given up. And a test has to know which versions of queue.json there
// were, in which order, or it cannot say that one of them went back.
//
//	nodes ──▶ Proxy ──▶ store
//	           │          ▲
//	           │ faults   │ Bucket: beside the proxy, for the test
//	           ▼          │
//	        versions ─────┘ read after each write of the document, under one lock
//
// # Stores
//
//	gofakes3    S3 in the test's process (the default)
//	versitygw   S3, a real server; skipped when bin/versitygw is not built
//	gcs         fake-gcs-server in the test's process
//	file        a directory; there is nothing to put a proxy in front of
//
// OSQUEUE_TEST_STORE chooses. Every test has a store of its own.
//
// # Faults
//
// A test orders faults (LoseAnswers, HoldNext, Inject), switches the store off in
// one of several ways (SetDown, SetAway, SetSlow), or leaves it to chance (Misbehave).
// The same seed brings the same sequence of throws, not the same run: which request
// meets which throw depends on the order in which they arrive.
//
// The writes of the document are applied one at a time, whatever becomes of their
// clients: the proxy has read them whole before, and sends them on in its own name.
// So the order of the record is the order in which the store accepted them.
package store
