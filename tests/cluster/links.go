package cluster

import (
	"net/url"

	"osqueue/tests/cluster/link"
)

// With links the ports of the proxies have the public addresses of the nodes, and the nodes
// listen on others.
const (
	privateHosts = 100 // on top of the node's number
	storeHost    = 90
	storePort    = 9000
)

func (c *Cluster) openLinks() {
	c.links = link.New()
	for i, n := range c.Nodes {
		n.httpBind = c.address(privateHosts+i+1, httpPort)
		n.raftBind = c.address(privateHosts+i+1, raftPort)
		c.listen(n.Name, link.HTTP, n.HTTP, n.httpBind)
		c.listen(n.Name, link.Raft, n.Raft, n.raftBind)
	}
	c.linkBucket()
}

func (c *Cluster) listen(owner string, s link.Service, at, target string) {
	if err := c.links.Listen(owner, s, at, target); err != nil {
		c.links.Close()
		c.tb.Fatal(err)
	}
}

// linkBucket puts a port in front of the endpoint in the bucket's URL. A bucket in a directory
// has no link. The requests are not changed: their Host is the port, and their signature covers
// it.
func (c *Cluster) linkBucket() {
	u, err := url.Parse(c.opt.Bucket)
	if err != nil {
		c.tb.Fatal(err)
	}
	query := u.Query()
	endpoint, err := url.Parse(query.Get("endpoint"))
	if err != nil {
		c.tb.Fatal(err)
	}
	if endpoint.Scheme != "http" {
		return
	}
	port := c.address(storeHost, storePort)
	c.listen(link.Store, link.Bucket, port, endpoint.Host)
	endpoint.Host = port
	query.Set("endpoint", endpoint.String())
	u.RawQuery = query.Encode()
	c.nodeBucket = u.String()
}

// Net returns the network of a cluster with Options.Links. In it nodes and workers have their
// names, the test and its clients are link.Client, and the bucket is link.Store, if it is
// reached over HTTP.
func (c *Cluster) Net() *link.Net {
	c.tb.Helper()
	if c.links == nil {
		c.tb.Fatal("the cluster was started without links")
	}
	return c.links
}
