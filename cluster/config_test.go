package cluster

import (
	"crypto/tls"
	"strings"
	"testing"
	"time"

	"osqueue/storage/mem"
)

func TestConfigSaysWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*Config)
		want  string
	}{
		"nothing":        {func(*Config) {}, ""},
		"name":           {func(c *Config) { c.Name = "n 1" }, "node name"},
		"no directory":   {func(c *Config) { c.DataDir = "" }, "data directory"},
		"none needed":    {func(c *Config) { c.DataDir, c.Memory = "", true }, ""},
		"no bucket":      {func(c *Config) { c.Bucket = nil }, "no bucket"},
		"peer twice":     {func(c *Config) { c.Peers = []PeerAddr{{Name: "n1", HTTP: "h:1"}, {Name: "n1", HTTP: "h:2"}} }, "twice"},
		"raft address":   {func(c *Config) { c.RaftAddr = "7080" }, "host:port"},
		"open raft port": {func(c *Config) { c.RaftAddr = "10.0.0.1:7080" }, "osqueue init"},
		"allowed":        {func(c *Config) { c.RaftAddr, c.Security.Accept = "10.0.0.1:7080", new(tls.Config) }, ""},
		"heartbeat":      {func(c *Config) { c.Flush.Heartbeat = c.BrokerTimeout/3 + 1 }, "a third of --broker-timeout"},
		"outage":         {func(c *Config) { c.MaxFlushLag = c.BrokerTimeout }, "must be longer than --broker-timeout"},
		"no outage":      {func(c *Config) { c.MaxFlushLag = 0 }, ""},
		"raft's lease":   {func(c *Config) { c.LeaseTimeout = time.Second }, "lease timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := DefaultConfig()
			cfg.Name, cfg.DataDir, cfg.Bucket = "n1", "data", mem.New()
			c.spoil(&cfg)
			err := cfg.Validate()
			if c.want == "" && err != nil {
				t.Fatal(err)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Fatalf("got %v, want an error about %q", err, c.want)
			}
		})
	}
}

func TestParsePeers(t *testing.T) {
	peers, err := ParsePeers(" n1=10.0.0.1:8080, n2=[::1]:80 ")
	if err != nil || len(peers) != 2 || peers[1] != (PeerAddr{Name: "n2", HTTP: "[::1]:80"}) {
		t.Errorf("%v %v", peers, err)
	}
	if peers, err := ParsePeers(" "); err != nil || peers != nil {
		t.Errorf("%v %v", peers, err)
	}
	peers, err = ParsePeers("n1=10.0.0.1:8080,10.0.0.2:8080,srv:_osqueue._tcp.example.test")
	if err != nil || len(peers) != 3 || peers[1] != (PeerAddr{HTTP: "10.0.0.2:8080"}) || peers[2] != (PeerAddr{HTTP: "srv:_osqueue._tcp.example.test"}) {
		t.Errorf("contacts: %v %v", peers, err)
	}
	for _, bad := range []string{"n1", "srv:", "n1=", "n1=host", "=h:1", "n 1=h:1", "n1=h:1,", "n1=h:1,n2"} {
		if _, err := ParsePeers(bad); err == nil || !strings.Contains(err.Error(), "name=host:port") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
