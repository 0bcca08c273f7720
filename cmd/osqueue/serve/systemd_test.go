package serve

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/hashicorp/go-hclog"
)

// systemd gets the state of the node at its socket; without one, nothing happens.
func TestNotifySystemd(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	notify(hclog.NewNullLogger(), daemon.SdNotifyReady)

	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	notify(hclog.NewNullLogger(), daemon.SdNotifyReady)
	if err := socket.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 64)
	n, err := socket.Read(said)
	if err != nil || string(said[:n]) != "READY=1" {
		t.Errorf("systemd got %q (%v)", said[:n], err)
	}
}
