package cluster

import (
	"os/exec"
	"strings"
	"testing"
)

func TestNodesOfASharedClusterAreNotStopped(t *testing.T) {
	n := &Node{process: process{Name: "n1", cluster: &Cluster{shared: true}}}
	for name, stop := range map[string]func(){"Kill": n.Kill, "Stop": func() { _ = n.Stop() }, "Pause": n.Pause, "Terminate": n.Terminate} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("nothing holds the test back")
				}
			}()
			stop()
		})
	}
}

// A test after which a node does not run is found, and named to the tests that follow.
func TestHarmToASharedClusterIsFound(t *testing.T) {
	s := &sharedCluster{whole: &Cluster{Nodes: []*Node{{process: process{Name: "n1"}}}}, pids: []int{1}}
	for _, test := range []string{"TestFirst", "TestSecond"} {
		if err := s.health(test); err == nil || !strings.Contains(err.Error(), "n1 has ended") {
			t.Errorf("%s: %v", test, err)
		}
	}
	if s.harmedBy != "TestFirst" {
		t.Errorf("it was harmed by %q", s.harmedBy)
	}
}

func TestProcessesThatAreLeft(t *testing.T) {
	if err := childrenLeft(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	err := childrenLeft()
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if err == nil || !strings.Contains(err.Error(), "(sleep)") {
		t.Errorf("with a process: %v", err)
	}
	if err := childrenLeft(); err != nil {
		t.Errorf("after its end: %v", err)
	}
}

func TestOwn(t *testing.T) {
	if got := (&Cluster{}).Own("mail"); got != "mail" {
		t.Errorf("on a cluster of the test's own: %s", got)
	}
	if got := (&Cluster{suffix: "-TestX-1"}).Own("mail"); got != "mail-TestX-1" {
		t.Errorf("on a shared one: %s", got)
	}
}
