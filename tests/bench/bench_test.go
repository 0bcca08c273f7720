package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"osqueue/tests/cluster"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == bareFollower {
		exit(runBareFollower(os.Args[2:]))
	}
	goleak.VerifyTestMain(m)
}

// Every section runs, at a small scale, and finds something. An idle leader writes to the bucket every ten seconds: the span is longer.
func TestEverySectionRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	var out bytes.Buffer
	o, err := parse([]string{"-duration", "100ms", "-span", "15s", "-deep", "3000", "-drain", "1000", "-kills", "1", "-json"})
	if err != nil {
		t.Fatal(err)
	}
	o.rounds, o.rise = 1, time.Second
	if err := run(o, &out); err != nil {
		t.Fatal(err)
	}
	var got results
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Machine.CPUs == 0 {
		t.Error("it does not say how many CPUs the machine has")
	}
	seen := make(map[string]bool)
	for _, f := range got.Figures {
		seen[f.Section] = true
		// The bucket may be up to date.
		if f.Value < 0 || f.Value == 0 && !strings.HasPrefix(f.Name, "bucket behind") {
			t.Errorf("%s, %s: %v", f.Section, f.Name, f.Value)
		}
	}
	for _, name := range sectionNames() {
		if !seen[name] {
			t.Errorf("section %s reports nothing", name)
		}
	}
}

// A row of each kind is compared, at a small scale; the program does not differ from itself beyond all reason.
func TestCompare(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	binary, err := cluster.Binary()
	if err != nil {
		t.Fatal(err)
	}
	o, err := parse([]string{"-base", binary, "-duration", "100ms"})
	if err != nil {
		t.Fatal(err)
	}
	o.rounds, o.pairs = 1, 2
	var rows []comparedRow
	for _, row := range comparedRows() {
		switch kind, _, _ := strings.Cut(row.name, ","); {
		case len(rows) == 0, kind == "drain", strings.HasPrefix(row.name, "sdk, 64 callers, enqueue,"):
			rows = append(rows, row)
		}
	}
	b := &bench{options: o, report: newReport(io.Discard, false)}
	if err := b.compare(rows); err != nil {
		t.Fatal(err)
	}
	if want := len(rows) + 2 + 1; len(b.report.Figures) != want { // two latencies, and the mean
		t.Errorf("%d figures of %d rows, want %d", len(b.report.Figures), len(rows), want)
	}
	for _, f := range b.report.Figures {
		if f.Value < 0.05 || f.Value > 20 {
			t.Errorf("%s: %v", f.Name, f.Value)
		}
	}
}

func TestVerdicts(t *testing.T) {
	low := figure{Value: 9, Unit: "x"}
	if f := low.atLeast(10); *f.Met {
		t.Error("9 is at least 10")
	}
	if f := low.atMost(10, "x", low.Value); !*f.Met {
		t.Error("9 is not at most 10")
	}
}

func TestALostLeaderIsTriedAgain(t *testing.T) {
	for _, tt := range []struct {
		fails, tries int
		with         error
		ok           bool
	}{
		{fails: 0, tries: 1, ok: true},
		{fails: 2, tries: 3, with: errUnavailable, ok: true},
		{fails: 9, tries: attemptsMax, with: errUnavailable},
		{fails: 1, tries: 1, with: os.ErrNotExist},
	} {
		b := &bench{report: newReport(io.Discard, false)}
		tries := 0
		err := b.attempt(section{name: "s", run: func(*bench) error {
			if tries++; tries <= tt.fails {
				return fmt.Errorf("wrapped: %w", tt.with)
			}
			return nil
		}})
		if tries != tt.tries || (err == nil) != tt.ok || len(b.report.Repeated) != tt.tries-1 {
			t.Errorf("%+v: %d tries, %d noted, %v", tt, tries, len(b.report.Repeated), err)
		}
	}
}

func TestQuickYieldsToWhatIsGiven(t *testing.T) {
	o, err := parse([]string{"-kills", "7", "-quick"})
	if err != nil {
		t.Fatal(err)
	}
	if o.kills != 7 || o.duration != time.Second || o.deep != 20_000 {
		t.Errorf("%+v", o)
	}
}

func TestBadArguments(t *testing.T) {
	for _, args := range [][]string{{"-only", "nothing"}, {"-duration", "0s"}, {"-deep", "10"}, {"-kills", "0"}, {"single"}, {"-what"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%v is taken", args)
		}
	}
	if o, err := parse([]string{"-only", "bare,depth", "--", "--flush-interval", "1s"}); err != nil || len(o.only) != 2 || len(o.serve) != 2 {
		t.Errorf("%+v %v", o, err)
	}
}
