package dev

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestControlSocketOfALivingCluster(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	l, err := listenControl(8080)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := listenControl(8080); err == nil || !strings.Contains(err.Error(), "another dev cluster") {
		t.Errorf("it was taken away: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(controlPath(8080)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("closed, but there: %v", err)
	}
}
