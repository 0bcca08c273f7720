package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The group of the commands has the weights of the configuration. With none it has the
// kernel's.
func TestWeightsInForce(t *testing.T) {
	needCgroups(t)
	for _, level := range confinedLevels {
		t.Run(string(level), func(t *testing.T) {
			b := bench(t, level, small, func(c *Config) { c.CPUWeight = 25 })
			checkWeight(t, b, "cpu.weight", "25")
			if got := output(t, b, sh("echo goes on")); got != "goes on\n" {
				t.Errorf("it says %q", got)
			}
			if said := b.Describe(); !strings.Contains(said, "CPU weight 25") {
				t.Errorf("it is described as %s", said)
			}
		})
	}
}

// A disk may have no weights: then that is said, and an error where control groups are required.
func TestIOWeight(t *testing.T) {
	needCgroups(t)
	b := bench(t, Process, small, func(c *Config) { c.IOWeight = 50 })
	said := b.Describe()
	t.Log(said)
	if strings.Contains(said, "I/O weight 50") {
		for _, name := range []string{"io.weight", "io.bfq.weight"} {
			if _, err := os.Stat(filepath.Join(b.groups.parent, name)); err == nil {
				checkWeight(t, b, name, "default 50")
				return
			}
		}
		t.Error("there is no file with the weight")
	}
	if !strings.Contains(said, "weights of the control group") {
		t.Error("it does not say that the weight is not in force")
	}
	c := b.cfg
	c.RequireCgroup = true
	if other, err := New(t.Context(), c); err == nil {
		t.Error("a box is made without the weight that is required", other.Close())
	} else if !strings.Contains(err.Error(), "weights of the control group") {
		t.Error(err)
	}
}

func checkWeight(t *testing.T, b *Box, name, want string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(b.groups.parent, name))
	if err != nil || strings.TrimSpace(string(text)) != want {
		t.Errorf("%s: %q %v", name, text, err)
	}
}

func TestInvalidWeights(t *testing.T) {
	for _, c := range []Config{{CPUWeight: -1}, {IOWeight: weightMax + 1}, {CPUWeight: 5, NoCgroup: true}} {
		if _, err := c.withDefaults(); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}
