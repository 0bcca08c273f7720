package serve

import (
	"fmt"
	"net/http"

	v1 "osqueue/client/api/v1"
	"osqueue/internal/webguard"
)

// completeHosts collects the host names under which this node is known.
func (o *serveOptions) completeHosts() (err error) {
	if o.hosts, err = webguard.ParseHosts(o.allowedHosts); err != nil {
		return fmt.Errorf("--allowed-hosts: %w", err)
	}
	o.hosts.Add(o.httpAddr)
	o.hosts.Add(o.node.HTTPAdvertise)
	for _, address := range o.legacy.hosts() {
		o.hosts.Add(address)
	}
	for _, p := range o.node.Peers {
		o.hosts.Add(p.HTTP)
	}
	return nil
}

// guarded keeps the pages of strangers away from a handler.
func (o *serveOptions) guarded(next http.Handler) http.Handler {
	return webguard.New(webguard.Config{
		Hosts:     o.hosts,
		Origins:   o.compat.allowed.Named(),
		AnyOrigin: o.compat.allowed.Any(),
		Open:      []string{v1.PathHealthz, v1.PathReadyz},
	}, next)
}
