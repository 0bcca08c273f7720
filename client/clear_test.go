package client

import (
	"crypto/tls"
	"strings"
	"testing"
)

// An access token is sent without TLS to loopback addresses only, or if the server says http://.
func TestTokenInClear(t *testing.T) {
	t.Setenv("OSQUEUE_CA", "")
	t.Setenv("OSQUEUE_TOKEN", "")
	for server, ok := range map[string]bool{
		"10.0.0.1:8080": false, "node1": false, "[fd00::1]:8080": false, "localhost.example:8080": false, "127.0.0.1.example": false,
		"127.0.0.1:8080": true, "127.0.0.2": true, "localhost": true, "[::1]:8080": true,
		"http://10.0.0.1:8080": true, "https://node1:8080": true,
	} {
		for _, cfg := range []Config{{Token: "osq_x"}, {Token: "osq_x", TLS: new(tls.Config)}, {}} {
			cfg.Servers = []string{server}
			c, err := New(cfg)
			if err == nil {
				c.Close()
			}
			want := ok || cfg.TLS != nil || cfg.Token == ""
			if want != (err == nil) || err != nil && !strings.Contains(err.Error(), "without TLS") {
				t.Errorf("%s, token %q, TLS %t: %v", server, cfg.Token, cfg.TLS != nil, err)
			}
		}
	}
	t.Setenv("OSQUEUE_TOKEN", "osq_x")
	if _, err := New(Config{Servers: []string{"127.0.0.1:8080", "10.0.0.2:8080"}}); err == nil {
		t.Error("a token of the environment is sent in clear")
	}
}
