package clients

import (
	"encoding/json"
	"reflect"
	"testing"

	"osqueue/tests/cluster"
)

// flowWanted is the output of both programs.
const flowWanted = `{
	"sameId": true,
	"idTaken": {"tag": "id_taken", "status": 409, "committed": "no", "leaseLost": false},
	"got": {"type": "flow", "status": "unclaimed", "payload": {"n": 1}, "priority": 5, "maxAttempts": 4, "tags": ["a"]},
	"sameKey": true, "otherKey": true,
	"keyConflict": {"tag": "request_conflict", "status": 409, "committed": "no", "leaseLost": false},
	"many": 2500, "manyAgain": true, "big": true, "none": [],
	"oddId": "a/b?c=%2F",
	"unknownJob": {"tag": "not_found", "status": 404, "committed": "no", "leaseLost": true},
	"claimedAgain": true, "emptyClaim": 0, "beat": "ok", "progress": 40,
	"released": "unclaimed", "tokenGrows": true,
	"late": {"tag": "stale_token", "status": 409, "committed": "no", "leaseLost": true},
	"completed": "completed", "completedTwice": "completed", "lateBeat": "stale_token",
	"result": {"by": "w2"},
	"waitEnds": true, "cancelled": "cancelled", "stats": 2500,
	"cancelledJob": ["cancelled", true, "job X is cancelled"],
	"deadJob": ["dead", true, "job X is dead: hopeless"],
	"bareHost": true, "url": false,
	"misspelt": "unknown_member", "awayRead": "no",
	"away": {"tag": "", "status": 0, "committed": "no", "leaseLost": false}
}`

// Every call of a client works, late reports are refused by their token, and a repeated request
// takes effect once.
func TestFlow(t *testing.T) {
	eachLanguage(t, func(t *testing.T, l language) {
		c := cluster.Start(t, cluster.Options{})
		out := run(t, l.desk(t), []string{servers(c)}, l.interpreter, "flow"+l.extension)
		checkFlow(t, out, flowWanted)
	})
}

// checkFlow compares the output of a program flow with the expected one.
func checkFlow(t *testing.T, out, wanted string) {
	t.Helper()
	checkFields(t, object(t, out), object(t, wanted))
}

func checkFields(t *testing.T, got, want map[string]any) {
	t.Helper()
	for name := range want {
		if !reflect.DeepEqual(got[name], want[name]) {
			t.Errorf("%s is %v, want %v", name, got[name], want[name])
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d figures, want %d: %v", len(got), len(want), got)
	}
}

func object(t *testing.T, text string) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return m
}
