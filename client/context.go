package client

import (
	"fmt"
	"os"

	"osqueue/client/contexts"
)

// FromContext returns the configuration for the cluster of a context, which "osqueue context
// add" or "osqueue dev" has made. Name "" means the context of OSQUEUE_CONTEXT, else the
// current one. OSQUEUE_SERVERS, OSQUEUE_CA and OSQUEUE_TOKEN override its parts. The caller may
// change the result before it calls New. An error means that a context is named that cannot be
// read, or that there is neither a context nor OSQUEUE_SERVERS.
func FromContext(name string) (Config, error) {
	r, err := contexts.Of(os.Getenv).Resolve(contexts.Given{Context: name}, os.Getenv)
	if err != nil {
		return Config{}, err
	}
	if len(r.Servers) == 0 {
		return Config{}, fmt.Errorf("no cluster is known: set %s, or make a context with osqueue context add", contexts.EnvServers)
	}
	cfg := Config{Servers: r.Servers, Token: r.Token}
	if r.CA != "" {
		if cfg.TLS, err = TLSOf([]byte(r.CA), "", ""); err != nil {
			return Config{}, err
		}
	}
	return cfg, nil
}
