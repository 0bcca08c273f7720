package admin

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"osqueue/client"
	"osqueue/cluster"
	"osqueue/cmd/osqueue/view"
	"osqueue/internal/auth/certs"
)

// certFlags are the flags that the commands about certificates share.
type certFlags struct {
	dir      string
	lifetime time.Duration
}

func (f *certFlags) bind(cmd *cobra.Command, lifetime time.Duration) {
	cmd.Flags().StringVar(&f.dir, "dir", "certs", "directory of the CA and of the certificates that it issues")
	help := "lifetime of the certificate"
	if lifetime == 0 {
		help += " (default: that of the previous one)"
	}
	view.SpanVar(cmd.Flags(), &f.lifetime, "lifetime", lifetime, help)
}

func newCertCommand(g *view.Globals) *cobra.Command {
	cmd := view.NewGroup("cert", "Make and show the certificates of a cluster",
		`A cluster whose nodes have certificates encrypts all its connections, and only nodes
reach its raft port. The commands work on files; join-token, sign and revoke ask nodes.
Keep the directory of the CA away from the nodes: a node needs ca.crt, its own .crt and
its own .key, never ca.key. Nodes and workers read changed files by themselves within a
few seconds.`)
	cmd.AddCommand(newCertCACommand(g), newCertNodeCommand(g), newCertClientCommand(g), newCertRenewCommand(g), newCertShowCommand(g), newCertRevokeCommand(g),
		newCertJoinTokenCommand(g), newCertSignCommand(g))
	return cmd
}

func newCertCACommand(g *view.Globals) *cobra.Command {
	var f certFlags
	var rotate, retire bool
	cmd := &cobra.Command{
		Use:   "ca",
		Short: "Make the CA of a cluster, or replace it",
		Long: `Makes a certificate authority: ca.crt, which every node and client gets, and ca.key,
which issues certificates and stays here.

To replace the CA without an interruption:

  osqueue cert ca --rotate      # ca.crt has both CAs; ca.key is that of the new one
  …                             # copy ca.crt to all nodes and clients, which then trust both
  osqueue cert renew --all      # new certificates, of the new CA: copy them to the nodes
  osqueue cert ca --retire      # ca.crt has the new CA only: copy it to all, too`,
		Example: `  osqueue cert ca
  osqueue cert ca --rotate`,
		RunE: func(*cobra.Command, []string) error {
			a, err := makeCA(f, rotate, retire)
			if err != nil {
				return err
			}
			return showCertificates(g, certs.Describe(filepath.Join(f.dir, certs.CAFile), a.Certificates()))
		},
	}
	f.bind(cmd, certs.CALifetime)
	cmd.Flags().BoolVar(&rotate, "rotate", false, "add a new certificate of the CA; the previous one stays valid")
	cmd.Flags().BoolVar(&retire, "retire", false, "remove the previous certificate of the CA from ca.crt")
	return cmd
}

func makeCA(f certFlags, rotate, retire bool) (*certs.Authority, error) {
	if rotate && retire {
		return nil, view.Usagef("--rotate and --retire exclude each other: issue the certificates again after --rotate, then give --retire")
	}
	if !rotate && !retire {
		return certs.CreateAuthority(f.dir, f.lifetime, time.Now())
	}
	a, err := certs.LoadAuthority(f.dir)
	if err != nil {
		return nil, err
	}
	if retire {
		return a, a.Retire()
	}
	return a, a.Rotate(f.lifetime, time.Now())
}

func newCertNodeCommand(g *view.Globals) *cobra.Command {
	var f certFlags
	var hosts []string
	cmd := &cobra.Command{
		Use:   "node NAME",
		Short: "Issue the certificate of a node",
		Long: `Issues NAME.crt and NAME.key for the node with --name NAME. Give every host name and
IP address by which nodes and clients dial it.`,
		Example: `  osqueue cert node n1 --host 10.0.0.1 --host n1.internal`,
		RunE: func(_ *cobra.Command, args []string) error {
			return issue(g, f, certs.Request{Kind: certs.Node, Name: args[0], Hosts: hosts, Lifetime: f.lifetime})
		},
	}
	f.bind(cmd, certs.NodeLifetime)
	cmd.Flags().StringSliceVar(&hosts, "host", nil, "host name or IP address by which others dial the node; may be repeated")
	return cmd
}

func newCertClientCommand(g *view.Globals) *cobra.Command {
	var f certFlags
	cmd := &cobra.Command{
		Use:   "client NAME",
		Short: "Issue the certificate of a client",
		Long:  `Issues NAME.crt and NAME.key for a client or worker.`,
		Example: `  osqueue cert client ci --lifetime 30d
  osqueue --ca certs/ca.crt --cert certs/ci.crt --key certs/ci.key status`,
		RunE: func(_ *cobra.Command, args []string) error {
			return issue(g, f, certs.Request{Kind: certs.Client, Name: args[0], Lifetime: f.lifetime})
		},
	}
	f.bind(cmd, certs.ClientLifetime)
	return cmd
}

func issue(g *view.Globals, f certFlags, r certs.Request) error {
	a, err := certs.LoadAuthority(f.dir)
	if err != nil {
		return err
	}
	c, err := a.Issue(r, time.Now())
	if err != nil {
		return err
	}
	return showCertificates(g, certs.Describe(filepath.Join(f.dir, r.Name+".crt"), certs.List{c}))
}

func newCertRenewCommand(g *view.Globals) *cobra.Command {
	var f certFlags
	var all bool
	cmd := &cobra.Command{
		Use:   "renew [NAME...]",
		Short: "Issue certificates again, with new keys",
		Long:  `Issues certificates again with the same names and hosts, a new key and a new lifetime.`,
		Example: `  osqueue cert renew n1 n2 n3
  osqueue cert renew --all`,
		RunE: func(_ *cobra.Command, names []string) error {
			if all == (len(names) > 0) {
				return view.Usagef("osqueue cert renew: give names, or --all")
			}
			return renew(g, f, names)
		},
	}
	f.bind(cmd, 0)
	cmd.Flags().BoolVar(&all, "all", false, "renew all certificates in the directory that this CA has issued")
	return cmd
}

// renew issues certificates again, all of them if names is empty.
func renew(g *view.Globals, f certFlags, names []string) error {
	a, err := certs.LoadAuthority(f.dir)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		if names, err = a.Issued(); err != nil {
			return err
		}
	}
	var out []certs.Description
	var errs []error
	for _, name := range names {
		c, err := a.Renew(name, f.lifetime, time.Now())
		if err != nil {
			errs = append(errs, fmt.Errorf("renew %s: %w", name, err))
			continue
		}
		out = append(out, certs.Describe(filepath.Join(f.dir, name+".crt"), certs.List{c})...)
	}
	if len(out) > 0 {
		errs = append(errs, showCertificates(g, out))
	}
	return errors.Join(errs...)
}

func newCertShowCommand(g *view.Globals) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "show [FILE|HOST:PORT...]",
		Short: "Show certificates",
		Long: `Shows the certificates in files; without a file, those in the directory. For HOST:PORT
it shows the certificate that a node uses there, wherever its file is, without checking it:
compare SHA-256 if you do not trust the network.`,
		Example: `  osqueue cert show
  osqueue cert show /etc/osqueue/n1.crt
  osqueue cert show 10.0.0.4:8080`,
		RunE: func(cmd *cobra.Command, files []string) error {
			if len(files) == 0 {
				var err error
				if files, err = filepath.Glob(filepath.Join(dir, "*.crt")); err != nil {
					return err
				}
				if len(files) == 0 {
					return fmt.Errorf("no certificates in %s: make a CA with: osqueue cert ca --dir %s", dir, view.ShellWord(dir))
				}
			}
			var out []certs.Description
			for _, file := range files {
				list, err := certificatesAt(cmd.Context(), file)
				if err != nil {
					return err
				}
				out = append(out, certs.Describe(file, list)...)
			}
			return showCertificates(g, out)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "certs", "directory to show if no file is given")
	return cmd
}

// dialTimeout bounds the time in which a node must show its certificate.
const dialTimeout = 10 * time.Second

// certificatesAt reads the certificates in a file. If there is no such file, and the name is
// HOST:PORT, it asks that node for its certificate.
func certificatesAt(ctx context.Context, name string) (certs.List, error) {
	list, err := certs.ReadList(name)
	if _, port, bad := net.SplitHostPort(name); !errors.Is(err, fs.ErrNotExist) || bad != nil || port == "" {
		return list, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // the certificate is shown, and nothing is sent
	conn, err := d.DialContext(ctx, "tcp", name)
	if err != nil {
		return nil, fmt.Errorf("ask %s for its certificate: %w", name, err)
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[:1], nil
}

// showCertificates prints one line for each certificate.
func showCertificates(g *view.Globals, list []certs.Description) error {
	rows := [][]string{{"FILE", "SUBJECT", "HOSTS", "ENDS", "LEFT", "SHA-256"}}
	for _, d := range list {
		rows = append(rows, []string{
			d.File, d.Subject, strings.Join(d.Hosts, " "), d.NotAfter.UTC().Format(time.DateOnly), left(time.Until(d.NotAfter)), d.Fingerprint[:16],
		})
	}
	return g.Details(list, rows)
}

// left formats the rest of a certificate's life.
func left(d time.Duration) string {
	switch {
	case d <= 0:
		return "expired"
	case d >= 2*view.Day:
		return fmt.Sprintf("%dd", (d+view.Day/2)/view.Day)
	default:
		return view.Short(d)
	}
}

func newCertRevokeCommand(g *view.Globals) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "revoke NODE",
		Short: "Revoke the certificates of a node, and remove the node",
		Long: `Revokes all certificates of a node that were issued until now, for example because its
key was stolen, and removes the node from the cluster. Within a second every node that
the leader reaches closes the connections of the revoked node. The command needs a token
of the role admin.

The cluster has one voter less until another node takes the place. To let the node back
in, issue a new certificate (osqueue cert renew NODE), admit it (osqueue cluster add),
delete its data directory and start it.`,
		Example: `  osqueue cert revoke n2 --yes`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !yes {
				return view.Usagef("osqueue cert revoke removes node %s from the cluster: give --yes", args[0])
			}
			return revokeNode(cmd.Context(), g, args[0])
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "confirm the revocation")
	return cmd
}

func revokeNode(ctx context.Context, g *view.Globals, node string) error {
	var done cluster.Revocation
	even := ""
	err := atLeader(ctx, g, func(ctx context.Context, c *client.Client, hc *http.Client, leader string) (again bool, err error) {
		if done, again, err = cluster.AskToRevoke(ctx, hc, leader, node); err == nil {
			even = evenText(c.StatusAll(ctx))
		}
		return again, err
	})
	if err != nil {
		return fmt.Errorf("revoke the certificates of node %s: %w", node, err)
	}
	was := "it was no member of the cluster"
	if len(done.Removed) > 0 {
		was = "it is no member of the cluster any more"
	}
	if even != "" {
		was += "\n" + even + ": add a node, or remove one"
	}
	return g.Print(done, "the certificates of node %s are revoked; %s\n", node, was)
}
