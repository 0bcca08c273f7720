package e2e

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// The units for systemd stay hardened, by the measure of systemd,
// in tenths: 0 is the least exposed. Each version of systemd has its own list of settings.
func TestUnitsAreHardened(t *testing.T) {
	t.Parallel()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skipf("systemd-analyze is needed: %v", err)
	}
	if out, err := exec.Command(analyze, "security", "--help").CombinedOutput(); err != nil {
		t.Skipf("%v: %s", err, out)
	}
	for unit, most := range map[string]string{"osqueue.service": "15", "osqueue-backup.service": "15", "osqueue-worker.service": "67"} {
		file := filepath.Join("..", "..", "docs", "examples", unit)
		out, err := exec.CommandContext(t.Context(), analyze, "security", "--offline=true", "--no-pager", "--threshold="+most, file).CombinedOutput()
		if err != nil {
			t.Errorf("%s is above %s: %v\n%s", unit, most, err, out)
		}
	}
}
