package admin

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"osqueue/cmd/osqueue/view"
	"osqueue/internal/auth/certs"
	"osqueue/internal/durable"
)

// initNode is a node with a certificate in the directory of osqueue init.
type initNode struct {
	name, http, raft string // its name and its addresses
}

// The ports in the commands that init prints. Further nodes of the same host get the next ones.
const (
	firstHTTPPort = 8080
	firstRaftPort = 7080
)

// knownNodes returns the nodes with a certificate in dir and those of requests, sorted by name.
// Their addresses have the first host of the request, else of the certificate.
func knownNodes(dir string, requests []certs.Request) ([]initNode, error) {
	hosts := make(map[string]string)
	files, err := filepath.Glob(filepath.Join(dir, "*.crt"))
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		list, err := certs.ReadList(f)
		if err != nil {
			continue // node reports it, if it is one of the requests
		}
		if s, err := certs.SubjectOf(list[0]); err == nil && s.Kind == certs.Node {
			hosts[s.Name] = certs.HostsOf(list[0])[0]
		}
	}
	for _, r := range requests {
		hosts[r.Name] = r.Hosts[0]
	}
	var out []initNode
	used := make(map[string]int) // nodes by host
	for name, host := range hosts {
		out = append(out, initNode{name: name, http: host})
	}
	slices.SortFunc(out, func(a, b initNode) int { return strings.Compare(a.name, b.name) })
	for i, n := range out {
		out[i].http = net.JoinHostPort(n.http, strconv.Itoa(firstHTTPPort+used[n.http]))
		out[i].raft = net.JoinHostPort(n.http, strconv.Itoa(firstRaftPort+used[n.http]))
		used[n.http]++
	}
	return out, nil
}

// next prints the next commands: one to start each node of the flags, or each known node if no
// flag names one.
func (in *initialization) next() error {
	dir := in.dir
	at := func(file string) string { return view.ShellWord(filepath.Join(dir, file)) }
	var peers, servers []string
	for _, n := range in.known {
		peers, servers = append(peers, n.name+"="+n.http), append(servers, n.http)
	}
	if len(peers) == 0 {
		return in.g.Printf("\nMake a certificate for each node: osqueue init --dir %s --node n1=HOST --node n2=HOST --node n3=HOST\n", view.ShellWord(in.dir))
	}
	if err := in.g.Printf(`
Start the nodes. On its machine each needs its own four files, and never ca.key. DIR is a
directory of this node alone, URL the same bucket for all:
`); err != nil {
		return err
	}
	for _, n := range in.known {
		if len(in.names) > 0 && !slices.Contains(in.names, n.name) {
			continue
		}
		if in.copyTo != "" && len(in.names) > 0 {
			dir = filepath.Join(in.copyTo, n.name)
		}
		if err := in.g.Printf(`
  osqueue serve --security=on --name %[1]s --data DIR --bucket URL \
    --http-addr %[2]s --raft-addr %[3]s \
    --peers %[4]s \
    --tls-ca %[5]s --tls-cert %[6]s --tls-key %[7]s --bootstrap-token %[8]s
`, n.name, n.http, n.raft, strings.Join(peers, ","), at(certs.CAFile), at(n.name+".crt"), at(n.name+".key"), at(bootstrapName)); err != nil {
			return err
		}
	}
	dir = in.dir
	return in.g.Printf(`
Call the cluster:

  osqueue context add NAME --servers %[1]s --ca %[2]s --token-file %[3]s --use
  osqueue status
  osqueue token create --role worker --name w1
`, strings.Join(servers, ","), at(certs.CAFile), at(adminTokenFile))
}

// copies writes the directories of --copy-to.
func (in *initialization) copies() error {
	if in.copyTo == "" {
		return nil
	}
	for _, name := range in.names {
		if err := in.copyNode(name); err != nil {
			return fmt.Errorf("node %s: %w", name, err)
		}
	}
	for _, name := range in.others {
		dir := filepath.Join(in.copyTo, name)
		if err := in.copyFiles(dir, certs.CAFile, name+tokenSuffix); err != nil {
			return fmt.Errorf("token %s: %w", name, err)
		}
	}
	return nil
}

// copyNode copies what a node needs. It keeps a certificate that ends later: the node has
// renewed it by itself.
func (in *initialization) copyNode(name string) error {
	dir := filepath.Join(in.copyTo, name)
	files := []string{certs.CAFile, bootstrapName}
	there, err := certs.ReadList(filepath.Join(dir, name+".crt"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	ours, err := certs.ReadList(filepath.Join(in.dir, name+".crt"))
	if err != nil {
		return err
	}
	if there == nil || ours[0].NotAfter.After(there[0].NotAfter) {
		// The key first: a node that reads between the two keeps its certificate.
		files = append(files, name+".key", name+".crt")
	}
	return in.copyFiles(dir, files...)
}

// copyFiles copies files, with their modes, unless the copies are the same.
func (in *initialization) copyFiles(dir string, names ...string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, name := range names {
		from, to := filepath.Join(in.dir, name), filepath.Join(dir, name)
		data, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		if have, err := os.ReadFile(to); err == nil && bytes.Equal(have, data) {
			continue
		}
		info, err := os.Stat(from)
		if err != nil {
			return err
		}
		if err := durable.Replace(to, data, info.Mode().Perm()); err != nil {
			return err
		}
	}
	return nil
}
