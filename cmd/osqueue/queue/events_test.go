package queue

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	v1 "osqueue/client/api/v1"
)

// The command and the dashboard know every kind of events.
func TestAllKindsOfEvents(t *testing.T) {
	source, err := os.ReadFile("../../../client/api/v1/wire.gen.go")
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile("../../../api/ui/static/app.js")
	if err != nil {
		t.Fatal(err)
	}
	kinds := regexp.MustCompile(`Event\w+ += "([a-z_.]+)"`).FindAllStringSubmatch(string(source), -1)
	if len(kinds) < 30 {
		t.Fatalf("%d kinds in the source", len(kinds))
	}
	for _, m := range kinds {
		if m[1] == v1.EventGap {
			continue
		}
		if !slices.Contains(eventKinds, m[1]) {
			t.Errorf("the command does not know %s", m[1])
		}
		if !strings.Contains(string(script), `"`+m[1]+`"`) {
			t.Errorf("the dashboard does not know %s", m[1])
		}
	}
}
