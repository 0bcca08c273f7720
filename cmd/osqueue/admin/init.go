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
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"osqueue/api/core"
	"osqueue/cmd/osqueue/view"
	"osqueue/fsm"
	"osqueue/internal/auth"
	"osqueue/internal/auth/certs"
	"osqueue/internal/host"
	"osqueue/storage/bucketurl"
)

// The files of osqueue init besides those of the CA.
const (
	adminTokenFile = "admin.token"
	bootstrapName  = "bootstrap.json"
)

func newInitCommand(g *view.Globals) *cobra.Command {
	in := initialization{g: g}
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Make the CA, the first admin token and the certificates of a new cluster",
		Long: `Makes the files of a cluster with --security=on, in one directory that only you can read:

  ca.crt          certificates of the CA, for every node and client
  ca.key          the CA's key: it makes nodes, so keep it here
  admin.token     the first access token, of the role admin, for you
  bootstrap.json  the hash of the token and the names of the nodes, for nodes
                  (serve --bootstrap-token)
  NAME.crt, .key  certificate of each node that --node names
  NAME.yaml       settings of the node, for osqueue serve --config

Give --node once for each node, with every host name and IP address by which nodes and
clients dial it, the main one first, and --bucket. The command prints how to start each
node and how to make a context. You can repeat it: it keeps what is there, makes what is
missing, such as the files of a further node, and renews the certificates of the --node
flags that are in the last third of their life.

--token worker=worker makes worker.token, an access token of the role worker, and adds
its hash to bootstrap.json. A cluster that has tokens already does not take it: use
osqueue token create.

--copy-to DIR writes for each node and for each token a directory of its own, DIR/NAME,
with the files that it needs and no other. It never contains ca.key or admin.token.

--kubernetes prints what the Helm chart needs, for kubectl apply: a Secret with the files of
the nodes, and one for each --token. Its value is the release, or namespace/release. Without
--node it makes the nodes RELEASE-0 to RELEASE-2. Run it again before 90 days are over: the
nodes use the new certificates without a restart.`,
		Example: `  osqueue init --node n1=127.0.0.1 --bucket file:///srv/osqueue
  osqueue init --bucket s3://jobs/prod --node n1=10.0.0.1,n1.internal --node n2=10.0.0.2 --node n3=10.0.0.3
  osqueue init --kubernetes --token worker=worker | kubectl apply -f -`,
		RunE: func(*cobra.Command, []string) error { return in.run() },
	}
	cmd.Flags().StringVar(&in.dir, "dir", "certs", "directory for the files")
	cmd.Flags().StringArrayVar(&in.nodes, "node", nil, "node to make a certificate for, as name=host or name=host,host; may be repeated")
	cmd.Flags().StringVar(&in.bucket, "bucket", "", "URL of the bucket for the settings of the nodes; the same for all")
	cmd.Flags().StringArrayVar(&in.tokens, "token", nil, "access token to make in addition to the first one, as name=role; may be repeated")
	cmd.Flags().StringVar(&in.release, "kubernetes", "", "print Secrets for this release of the Helm chart, as release or namespace/release")
	cmd.Flags().Lookup("kubernetes").NoOptDefVal = "osqueue"
	cmd.Flags().StringVar(&in.copyTo, "copy-to", "", "directory for copies: one directory for each node and each token")
	return cmd
}

// initialization is one run of osqueue init.
type initialization struct {
	g       *view.Globals
	dir     string
	bucket  string   // flag
	nodes   []string // flags
	tokens  []string // flags
	copyTo  string
	release string // of the Helm chart; "": not on Kubernetes

	namespace string // of the release; "": that of kubectl

	made   []initFile
	known  []initNode // all nodes with a certificate in dir, sorted by name
	names  []string   // of the nodes
	others []string   // names of the tokens besides the first
}

// initFile is a file in the report of a run.
type initFile struct {
	File    string `json:"file"`
	Made    bool   `json:"made"` // false: it was there
	Renewed bool   `json:"renewed,omitempty"`
	About   string `json:"about"`
}

func (in *initialization) run() error {
	in.completeRelease()
	requests, err := nodeRequests(in.nodes)
	if err != nil {
		return err
	}
	if in.bucket != "" {
		if err := bucketurl.Check(in.bucket); err != nil {
			return view.Usagef("--bucket: %w", err)
		}
	}
	roles, err := tokenRoles(in.tokens)
	if err != nil {
		return err
	}
	a, err := in.authority()
	if err != nil {
		return err
	}
	if in.known, err = knownNodes(in.dir, requests); err != nil {
		return err
	}
	if err := in.token(roles); err != nil {
		return err
	}
	for _, r := range requests {
		if err := in.node(a, r); err != nil {
			return fmt.Errorf("certificate of node %s: %w", r.Name, err)
		}
	}
	for _, n := range in.known {
		if err := in.settings(n); err != nil {
			return fmt.Errorf("settings of node %s: %w", n.name, err)
		}
	}
	if err := in.copies(); err != nil {
		return fmt.Errorf("--copy-to: %w", err)
	}
	if in.release != "" {
		return in.secrets()
	}
	return in.report()
}

// nodeRequests reads the flags --node.
func nodeRequests(flags []string) ([]certs.Request, error) {
	var out []certs.Request
	for _, text := range flags {
		name, hosts, ok := strings.Cut(text, "=")
		if !ok || name == "" || hosts == "" {
			return nil, view.Usagef("--node %q: write name=host or name=host,host", text)
		}
		out = append(out, certs.Request{Kind: certs.Node, Name: name, Hosts: strings.Split(hosts, ","), Lifetime: certs.NodeLifetime})
	}
	return out, nil
}

func (in *initialization) add(made bool, about string, names ...string) {
	for i, name := range names {
		names[i] = filepath.Join(in.dir, name)
	}
	in.made = append(in.made, initFile{File: strings.Join(names, " "), Made: made, About: about})
}

// authority makes the CA, or loads the one in the directory.
func (in *initialization) authority() (*certs.Authority, error) {
	_, err := os.Stat(filepath.Join(in.dir, certs.CAFile))
	fresh := errors.Is(err, fs.ErrNotExist)
	var a *certs.Authority
	if fresh {
		a, err = certs.CreateAuthority(in.dir, certs.CALifetime, time.Now())
	} else {
		a, err = certs.LoadAuthority(in.dir)
	}
	if err != nil {
		return nil, err
	}
	in.add(fresh, "the CA of cluster "+a.Cluster()+"; ca.key makes nodes: keep it here", certs.CAFile, "ca.key")
	return a, nil
}

// token makes the first access tokens and the file for the nodes. The tokens are written first:
// the other file follows from them, also in a later run.
func (in *initialization) token(roles []namedRole) error {
	path, hashed := filepath.Join(in.dir, adminTokenFile), filepath.Join(in.dir, bootstrapName)
	b, err := auth.ReadBootstrap(hashed)
	before := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	secret, err := auth.ReadSecret(path)
	missing := errors.Is(err, fs.ErrNotExist)
	switch {
	case missing && before:
	case missing:
		secret = auth.New()
		err = secret.WriteSecret(path)
		fallthrough
	default:
		if err != nil {
			return err
		}
		first := secret.Bootstrap()
		b.ID, b.Hash = first.ID, first.Hash
		in.add(missing, "the first access token, of the role admin: keep it secret", adminTokenFile)
	}
	for _, r := range roles {
		if err := in.other(&b, r); err != nil {
			return err
		}
	}
	b.Nodes = nil
	for _, n := range in.known {
		b.Nodes = append(b.Nodes, n.name)
	}
	if err := b.Write(hashed); err != nil {
		return err
	}
	in.add(!before, "the hashes of the tokens and the names of the nodes, for the nodes", bootstrapName)
	return nil
}

// other makes a token besides the first, unless it is there.
func (in *initialization) other(b *auth.Bootstrap, r namedRole) error {
	in.others = append(in.others, r.name)
	path := filepath.Join(in.dir, r.name+tokenSuffix)
	secret, err := auth.ReadSecret(path)
	missing := errors.Is(err, fs.ErrNotExist)
	if missing {
		secret = auth.New()
		err = secret.WriteSecret(path)
	}
	if err != nil {
		return err
	}
	i := slices.IndexFunc(b.Others, func(t auth.FirstToken) bool { return t.Name == r.name })
	switch {
	case i < 0:
		b.Others = append(b.Others, secret.First(r.role, r.name))
	case b.Others[i].Role != r.role:
		return fmt.Errorf("token %s has the role %s in %s: choose another name", r.name, b.Others[i].Role, bootstrapName)
	default:
		b.Others[i] = secret.First(r.role, r.name)
	}
	in.add(missing, "access token of the role "+r.role.String(), r.name+tokenSuffix)
	return nil
}

// tokenSuffix ends the names of files with an access token.
const tokenSuffix = ".token"

// namedRole is a flag --token.
type namedRole struct {
	name string
	role fsm.Role
}

// tokenRoles reads the flags --token.
func tokenRoles(flags []string) ([]namedRole, error) {
	var out []namedRole
	for _, text := range flags {
		name, role, ok := strings.Cut(text, "=")
		r, known := fsm.ParseRole(role)
		switch {
		case !ok || !known || r == fsm.RoleMark:
			return nil, view.Usagef("--token %q: write name=role, with the role producer, worker, reader, operator or admin", text)
		case name+tokenSuffix == adminTokenFile || certs.CheckName(name) != nil:
			return nil, view.Usagef("--token %q: the name must be letters, digits, '.', '_' or '-', and not admin", text)
		}
		out = append(out, namedRole{name: name, role: r})
	}
	return out, nil
}

// node issues the certificate of a node, unless it is there with the same hosts.
func (in *initialization) node(a *certs.Authority, r certs.Request) error {
	in.names = append(in.names, r.Name)
	path := filepath.Join(in.dir, r.Name+".crt")
	list, err := certs.ReadList(path)
	if err == nil {
		if s, err := certs.SubjectOf(list[0]); err != nil || s.Kind != certs.Node {
			return fmt.Errorf("%s is not the certificate of a node: choose another name", path)
		}
		have, want := certs.HostsOf(list[0]), slices.Clone(r.Hosts)
		slices.Sort(have)
		slices.Sort(want)
		if !slices.Equal(have, want) {
			return fmt.Errorf("%s is for the hosts %s: to replace it, run osqueue cert node %s --dir %s --host %s",
				path, strings.Join(have, ", "), r.Name, view.ShellWord(in.dir), strings.Join(r.Hosts, " --host "))
		}
		if !certs.RenewalDue(list[0], time.Now()) {
			in.add(false, "node "+r.Name, r.Name+".crt", r.Name+".key")
			return nil
		}
		if _, err := a.Renew(r.Name, 0, time.Now()); err != nil {
			return err
		}
		in.add(false, "node "+r.Name+", with a new lifetime", r.Name+".crt", r.Name+".key")
		in.made[len(in.made)-1].Renewed = true
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, err := a.Issue(r, time.Now()); err != nil {
		return err
	}
	in.add(true, "node "+r.Name+" at "+strings.Join(r.Hosts, ", "), r.Name+".crt", r.Name+".key")
	return nil
}

func (in *initialization) report() error {
	if in.g.JSON {
		return in.g.WriteJSON(in.made)
	}
	rows := [][]string{{"", "FILES", ""}}
	for _, f := range in.made {
		state := "kept"
		switch {
		case f.Made:
			state = "made"
		case f.Renewed:
			state = "renewed"
		}
		rows = append(rows, []string{state, f.File, f.About})
	}
	if err := in.g.Table(rows); err != nil {
		return err
	}
	return in.next()
}

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

// settings writes the file with the settings of a node of this run, unless it is there.
func (in *initialization) settings(n initNode) error {
	file := n.name + ".yaml"
	if !slices.Contains(in.names, n.name) {
		return nil
	}
	named, _ := in.peers()
	lines := []struct{ setting, value string }{
		{"name", n.name},
		{"data", n.name + "-data"},
		{"bucket", in.bucket},
		{"http-addr", n.http},
		{"raft-addr", n.raft},
		{"peers", strings.Join(named, ",")},
		{"security", core.SecurityOn},
		{"tls-ca", certs.CAFile},
		{"tls-cert", n.name + ".crt"},
		{"tls-key", n.name + ".key"},
		{"bootstrap-token", bootstrapName},
	}
	var text strings.Builder
	fmt.Fprintf(&text, "# The settings of node %s: osqueue serve --config %s. Paths count from the directory of this file.\n"+
		"# docs/settings.md has all settings; osqueue config check serve --config %s checks them.\n", n.name, file, file)
	for _, l := range lines {
		value, err := yaml.Marshal(l.value)
		switch {
		case err != nil:
			return err
		case l.value == "":
			fmt.Fprintf(&text, "# %s: s3://BUCKET/PREFIX?region=REGION   the same for all nodes\n", l.setting)
		default:
			fmt.Fprintf(&text, "%s: %s", l.setting, value)
		}
	}
	_, err := os.Stat(filepath.Join(in.dir, file))
	missing := errors.Is(err, fs.ErrNotExist)
	if missing {
		err = host.ReplaceFile(filepath.Join(in.dir, file), []byte(text.String()), 0o600)
	}
	if err != nil {
		return err
	}
	in.add(missing, "the settings of node "+n.name, file)
	return nil
}

// peers returns the known nodes as NAME=ADDRESS, and their addresses.
func (in *initialization) peers() (named, addresses []string) {
	for _, n := range in.known {
		named, addresses = append(named, n.name+"="+n.http), append(addresses, n.http)
	}
	return named, addresses
}

// next prints the next commands: one to start each node of the flags, or each known node if no
// flag names one.
func (in *initialization) next() error {
	if len(in.known) == 0 {
		return in.g.Printf("\nMake a certificate for each node: osqueue init --dir %s --node n1=HOST --node n2=HOST --node n3=HOST\n", view.ShellWord(in.dir))
	}
	note := ""
	if in.bucket == "" {
		note = "Set bucket in the files of settings, the same for all nodes. "
	}
	if err := in.g.Printf("\n%sStart the nodes. On its machine each needs its own five files, in one\ndirectory, and never ca.key:\n\n", note); err != nil {
		return err
	}
	for _, n := range in.known {
		file := filepath.Join(in.dir, n.name+".yaml")
		switch {
		case len(in.names) > 0 && !slices.Contains(in.names, n.name):
			continue
		case in.copyTo != "" && len(in.names) > 0:
			file = filepath.Join(in.copyTo, n.name, n.name+".yaml")
		}
		if err := in.g.Printf("  osqueue serve --config %s\n", view.ShellWord(file)); err != nil {
			return err
		}
	}
	at := func(file string) string { return view.ShellWord(filepath.Join(in.dir, file)) }
	_, addresses := in.peers()
	return in.g.Printf(`
Call the cluster:

  osqueue context add NAME --servers %[1]s --ca %[2]s --token-file %[3]s --use
  osqueue status
  osqueue token create --role worker --name w1
`, strings.Join(addresses, ","), at(certs.CAFile), at(adminTokenFile))
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
	if _, err := os.Stat(filepath.Join(dir, name+".yaml")); errors.Is(err, fs.ErrNotExist) {
		files = append(files, name+".yaml") // the operator may have changed the copy
	}
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
		if err := host.ReplaceFile(to, data, info.Mode().Perm()); err != nil {
			return err
		}
	}
	return nil
}
