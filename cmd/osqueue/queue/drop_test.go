package queue

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/clitest"
	"osqueue/cmd/osqueue/view"
)

// drop drops a job, whose id it returns, and reads its file.
func drop(t *testing.T, args ...string) (id, file string) {
	t.Helper()
	dir := t.TempDir()
	got := osq.Command(t).Run(append([]string{"drop", "--json", "--new", "--bucket", "file://" + dir}, args...)...)
	var out struct {
		ID  string `json:"jobId"`
		Key string `json:"key"`
	}
	if err := json.Unmarshal([]byte(got.Out), &out); err != nil || got.Code != view.ExitOK || out.Key != "inbox/"+out.ID+".json" {
		t.Fatalf("%+v, %v", got, err)
	}
	data, err := os.ReadFile(filepath.Join(dir, out.Key))
	check(t, err)
	return out.ID, string(data)
}

func TestDropMakesAnID(t *testing.T) {
	if id, file := drop(t, "wc", "1"); len(id) != 36 || !strings.Contains(file, id) {
		t.Errorf("%s: %s", id, file)
	}
}

// TestDroppedIsWhatSubmitSends: the queue reads the file as the same job.
func TestDroppedIsWhatSubmitSends(t *testing.T) {
	args := strings.Fields(`wc {"a":[1,2]} --id mine --priority 7 --max-attempts 2 --lease 3s --job-timeout 1s --group g --tag t
		--after b --after-failure cancel --unique k --backoff exponential:1s:1h:20% --delay 5s`)
	q := clitest.NewFake(t)
	if got := osq.Run(t, q, "", append([]string{"submit"}, args...)...); got.Code != view.ExitOK {
		t.Fatalf("%+v", got)
	}
	sent := q.Writes()[0].Body
	_, file := drop(t, args...)
	file = file[strings.Index(file, "{"):]
	m, err := core.JobReader(core.Limits{}, 0, nil, func() int64 { return 1 })("mine", []byte(file))
	if err != nil || m.GetEnqueue() == nil {
		t.Fatalf("%s: %v", file, err)
	}
	var a, b v1.NewJob
	if json.Unmarshal([]byte(sent), &a) != nil || json.Unmarshal([]byte(file), &b) != nil || !reflect.DeepEqual(a, b) {
		t.Errorf("submit sends %s\ndrop puts  %s", sent, file)
	}
}
