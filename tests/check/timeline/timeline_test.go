package timeline_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"osqueue/tests/check/timeline"
	"osqueue/tests/history"
	"osqueue/tests/model"
)

var rewrite = flag.Bool("rewrite", false, "write the golden file anew")

func small() *history.History {
	const ms = history.Millisecond
	return &history.History{
		Run: history.Run{Name: `a <small> "run" & more`, Seed: 7, Nodes: 3, Store: "file", Start: time.UnixMilli(1_700_000_000_000).UTC()},
		Ops: []history.Op{
			{ID: 1, Client: "p1", Kind: history.Enqueue, Outcome: history.OK, Job: "a", Type: "t", Call: 10 * ms, Return: 20 * ms},
			{ID: 2, Client: "w10", Kind: history.Claim, Outcome: history.OK, Call: 30 * ms, Return: 50 * ms, Jobs: []history.Held{{Job: "a", Token: 5, Attempt: 1}}},
			{ID: 3, Client: "w2", Kind: history.Claim, Outcome: history.Unknown, Error: "cut <off>", Call: 60 * ms, Return: 900 * ms},
			{ID: 4, Client: "w10", Kind: history.Complete, Outcome: history.Refused, Tag: "stale_token", Job: "a", Token: 5, Call: 920 * ms, Return: 940 * ms},
		},
		Faults: []history.Fault{
			{Name: "leader-killed", Target: "n1", Begin: 100 * ms, End: 600 * ms, Hit: true, Proof: "pid 7 ended"},
			{Name: "partition", Target: "n2", Begin: 300 * ms, End: 800 * ms, Proof: "nothing was withheld"},
		},
		Applied: []history.Applied{{Kind: history.Broker, Code: "ok", Now: 1_700_000_000_500, Epoch: 2, Worker: "n2"}},
	}
}

func draw(t *testing.T, h *history.History, opt timeline.Options) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := timeline.Write(&out, h, opt); err != nil {
		t.Fatal(err)
	}
	wellFormed(t, out.Bytes())
	return out.Bytes()
}

// wellFormed parses the page as XML, and finds duplicate names.
func wellFormed(t *testing.T, page []byte) {
	t.Helper()
	ids := make(map[string]bool)
	d := xml.NewDecoder(bytes.NewReader(page))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("not well formed: %v", err)
		}
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		for _, a := range start.Attr {
			if a.Name.Local == "id" && ids[a.Value] {
				t.Fatalf("two elements are called %s", a.Value)
			} else if a.Name.Local == "id" {
				ids[a.Value] = true
			}
		}
	}
}

func TestGolden(t *testing.T) {
	page := draw(t, small(), timeline.Options{Verdicts: []model.Verdict{
		{Checker: "Kept", Result: model.OK, Checked: 4},
		{Checker: "Leases", Result: model.Violated, Checked: 2, Violations: []model.Violation{{Text: `job "a" < b`, Ops: []int{2, 4}}}},
	}})
	const name = "testdata/small.html"
	if *rewrite {
		if err := os.WriteFile(name, page, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(page, want) {
		t.Errorf("it is drawn differently; look at it, then run with -rewrite:\n%s", page)
	}
}

// TestManyOperations checks that the drawing of a long run is no larger than the screen, and
// that it shows all operations of violations.
func TestManyOperations(t *testing.T) {
	h := small()
	for i := range 50_000 {
		at := history.Time(i) * 2 * history.Millisecond
		h.Ops = append(h.Ops, history.Op{
			ID: 100 + i, Client: fmt.Sprint("w", i%10), Kind: history.Stats, Outcome: history.OK, Call: at, Return: at + history.Millisecond,
		})
	}
	violated := []model.Verdict{{Checker: "Once", Result: model.Violated, Violations: []model.Violation{{Text: "x", Ops: []int{25_000}}}}}
	began := time.Now()
	page := string(draw(t, h, timeline.Options{Verdicts: violated}))
	t.Logf("%d bytes in %v", len(page), time.Since(began))
	if len(page) > 6<<20 {
		t.Errorf("%d bytes", len(page))
	}
	if !strings.Contains(page, `id="op25000" class="ok marked"`) {
		t.Error("the operation of the violation is not drawn")
	}
	if !strings.Contains(page, "operations, ") {
		t.Error("nothing was merged")
	}
	// A window shows each operation.
	page = string(draw(t, h, timeline.Options{Around: 25_000, Window: time.Second}))
	for id := 24_700; id < 25_300; id++ {
		if !strings.Contains(page, fmt.Sprintf(`id="op%d"`, id)) {
			t.Fatalf("operation %d is not in the window", id)
		}
	}
	if strings.Contains(page, `id="op45000"`) {
		t.Error("the window has no end")
	}
}

func TestAroundMarksTheJob(t *testing.T) {
	page := string(draw(t, small(), timeline.Options{Around: 4}))
	for _, id := range []string{`id="op1" class="ok same"`, `id="op2" class="ok same"`, `id="op4" class="refused same"`, `id="op3" class="unknown" `} {
		if !strings.Contains(page, id) {
			t.Errorf("%s is not there", id)
		}
	}
	if err := timeline.Write(io.Discard, small(), timeline.Options{Around: 99}); err == nil {
		t.Error("an operation that is not there has a window")
	}
}

func TestNothingToDraw(t *testing.T) { draw(t, &history.History{}, timeline.Options{}) }
