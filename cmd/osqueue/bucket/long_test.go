package bucket

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"osqueue/cmd/osqueue/view"
	"osqueue/storage"
)

// A document with a very long text is shown in short.
func TestInspectALongText(t *testing.T) {
	for name, text := range map[string]string{
		"letters":  strings.Repeat("x", 8<<20),
		"controls": strings.Repeat(`\u001b\u0007`, 1<<18),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			doc := `{"broker":"` + text + `","brokerHeartbeat":0,"jobs":[],"completedTotal":0}`
			if err := os.WriteFile(filepath.Join(dir, "queue.json"), []byte(doc), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := offlineRun(t, "inspect", "file://"+dir); got.Code != view.ExitOK || len(got.Out) > 4<<10 {
				t.Errorf("status %d, %d bytes", got.Code, len(got.Out))
			}
		})
	}
}

// A link in a directory is not an object of it.
func TestInspectFollowsNoLinks(t *testing.T) {
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "queue.json")
	doc := `{"broker":null,"brokerHeartbeat":0,"jobs":[],"completedTotal":0}`
	if err := errors.Join(os.WriteFile(outside, []byte(doc), 0o600), os.Symlink(outside, filepath.Join(dir, "queue.json"))); err != nil {
		t.Fatal(err)
	}
	fails(t, []string{"inspect", "file://" + dir}, "not a regular file")
}

// adopt marks a bucket without a queue, once it is confirmed, and nothing else.
func TestAdopt(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bucket")
	url := "file://" + dir
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if got := offlineRun(t, "bucket", "adopt", url); got.Code != view.ExitUsage || !strings.Contains(got.Err, "--yes") {
		t.Errorf("without --yes: %+v", got)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("without --yes: %v, %v", entries, err)
	}
	says(t, url+" is marked: the leader of the cluster writes its state there", "bucket", "adopt", url, "--yes")
	data, err := os.ReadFile(filepath.Join(dir, storage.MarkerKey))
	if err != nil || storage.MarkerID(data) == "" {
		t.Errorf("the marker is %q, %v", data, err)
	}
	says(t, url+" has bucket-id: nothing to do", "bucket", "adopt", url, "--yes")
	if again, err := os.ReadFile(filepath.Join(dir, storage.MarkerKey)); err != nil || string(again) != string(data) {
		t.Errorf("the marker is %q, %v", again, err)
	}
}
