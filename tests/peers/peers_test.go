package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Every cell runs with osqueue and with each system that is installed.
func TestShortRun(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	o, err := parse([]string{"-short", "-json"})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := run(t.Context(), o, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	var got report
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	for _, s := range got.Skipped {
		t.Log("skipped: " + s)
	}
	for _, c := range cells {
		trials := got.of(c.name, "osqueue")
		if len(trials) != 1 {
			t.Errorf("cell %s has %d trials with osqueue, want 1", c.name, len(trials))
			continue
		}
		if r := trials[0]; c.value.of(r) <= 0 || r.Ops <= 0 || r.Entries == 0 {
			t.Errorf("cell %s: %+v", c.name, r)
		}
	}
	var text strings.Builder
	if err := got.writeTables(&text); err != nil {
		t.Fatal(err)
	}
	for _, c := range cells {
		if !strings.Contains(text.String(), "| "+c.title+" |") {
			t.Errorf("the table has no row %q", c.title)
		}
	}
}

func TestPayload(t *testing.T) {
	now := time.Now()
	p := newPayload(now)
	if len(p) != payloadBytes || !json.Valid(p) {
		t.Fatalf("payload of %d bytes, valid JSON: %v", len(p), json.Valid(p))
	}
	if at, err := stampOf(p); err != nil || !at.Equal(now.Truncate(0)) {
		t.Errorf("stampOf = %v, %v, want %v", at, err, now)
	}
	for _, bad := range []string{"", `"x"`, strings.Repeat("x", payloadBytes)} {
		if at, err := stampOf([]byte(bad)); err == nil {
			t.Errorf("stampOf(%.10q) = %v, want an error", bad, at)
		}
	}
}

func TestArguments(t *testing.T) {
	o, err := parse([]string{"-systems", "nats,osqueue", "-cells", "drain", "-rounds", "1"})
	if err != nil || len(o.systems) != 2 || len(o.cells) != 1 || o.rounds != 1 {
		t.Errorf("%+v, %v", o, err)
	}
	if o, err := parse(nil); err != nil || len(o.cells) != len(cells) || len(o.systems) != len(systems) || o.limit > 20*time.Minute {
		t.Errorf("%+v, %v", o, err)
	}
	for _, args := range [][]string{{"-systems", "kafka"}, {"-cells", "x"}, {"-rounds", "0"}, {"-duration", "0s"}, {"drain"}, {"-what"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("parse(%v) succeeds", args)
		}
	}
}

// The table has medians of the quieter half, ratios to the ruler, and a dash for the rest.
func TestTables(t *testing.T) {
	r := &report{Trials: []result{
		{Cell: "single-64", System: "osqueue", Ops: 1000, Rate: 9, usage: usage{Noise: 0.8}},
		{Cell: "single-64", System: "osqueue", Ops: 1000, Rate: 8, usage: usage{Noise: 0.9}},
		{Cell: "single-64", System: "osqueue", Ops: 1000, Rate: 100, usage: usage{Entries: 100, Noise: 0.1, CPU: map[string]time.Duration{
			"leader": 10 * time.Millisecond, "followers": 20 * time.Millisecond, clientRole: 30 * time.Millisecond,
		}}},
		{Cell: "single-64", System: "osqueue", Ops: 1000, Rate: 300, usage: usage{Noise: 0.3}},
		{Cell: "single-64", System: "osqueue", Error: "no leader"},
		{Cell: "single-64", System: "nats", Ops: 1, Rate: 100},
		{Cell: "sequential", System: "nats", Ops: 1, P50: time.Millisecond},
		{Cell: "batch-4", System: "osqueue-http", Error: "refused"},
	}}
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "run.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := run(t.Context(), options{from: []string{file}}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| cell | unit | osqueue | osqueue-http | nats |",
		"| 64 callers, one job a call | jobs/s | 200 (2.00) | – | 100 |",
		"| sequential enqueue, p50 | ms | – | – | 1.00 |",
		"| 2 | 100 % | 20–30 % |",
		"Not measured: single-64, osqueue: no leader.",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if err := r.failure(); err == nil || err.Error() != "single-64, osqueue: no leader\nbatch-4, osqueue-http: refused" {
		t.Errorf("failure() = %v", err)
	}
}

func TestMedian(t *testing.T) {
	for want, values := range map[float64][]float64{2: {3, 1, 2}, 2.5: {4, 1, 2, 3}, 7: {7}} {
		if got := medianOf(values); got != want {
			t.Errorf("median = %v, want %v", got, want)
		}
	}
}
