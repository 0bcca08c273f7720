package bucket

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestLong(t *testing.T) {
	long := strings.Repeat("x", 4<<20)
	for name, doc := range map[string]string{
		"payload": `{"broker":null,"brokerHeartbeat":0,"jobs":[{"id":"a","status":"unclaimed","payload":"` + long + `","createdAt":1,"attempts":0}],"completedTotal":0}`,
		"extra":   `{"broker":null,"brokerHeartbeat":0,"jobs":[],"completedTotal":0,"note":"` + long + `"}`,
		"broker":  `{"broker":"` + long + `","brokerHeartbeat":0,"jobs":[],"completedTotal":0}`,
		"id":  `{"broker":null,"brokerHeartbeat":0,"jobs":[{"id":"` + long + `","status":"unclaimed","createdAt":1,"attempts":0}],"completedTotal":0}`,
		"type":  `{"broker":null,"brokerHeartbeat":0,"jobs":[{"id":"a","type":"` + long + `","status":"unclaimed","createdAt":1,"attempts":0}],"completedTotal":0}`,
		"worker":  `{"broker":null,"brokerHeartbeat":0,"jobs":[{"id":"a","workerId":"` + long + `","status":"in_progress","createdAt":1,"attempts":0}],"completedTotal":0}`,
		"controls":  `{"broker":"`+strings.Repeat(`\u001b`,1<<20)+`","brokerHeartbeat":0,"jobs":[],"completedTotal":0}`,
		"bare":    `"` + long + `"`,
	} {
		dir := t.TempDir()
		os.WriteFile(filepath.Join(dir, "queue.json"), []byte(doc), 0o600)
		for _, args := range [][]string{{"inspect", "file://" + dir}, {"verify", "file://" + dir}} {
			start := time.Now()
			got := offlineRun(t, args...)
			fmt.Println(name, args[0], time.Since(start), got.Code, len(got.Out), len(got.Err))
		}
	}
}
