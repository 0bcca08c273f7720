package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"osqueue/client"
	"osqueue/cmd/osqueue/view"
	"osqueue/internal/auth/certs"
	"osqueue/internal/auth/enroll"
	"osqueue/internal/sleep"
)

// atLeader calls ask with the URL of the active leader until it wants no other call, or the timeout of the
// command ends.
func atLeader(ctx context.Context, g *view.Globals, ask func(ctx context.Context, c *client.Client, hc *http.Client, leader string) (again bool, err error)) error {
	return g.WithClient(ctx, func(ctx context.Context, c *client.Client) error {
		hc, err := g.HTTPClient()
		if err != nil {
			return err
		}
		defer hc.CloseIdleConnections()
		for {
			nodes := c.StatusAll(ctx)
			again, err := true, noLeaderAsked(nodes)
			if i := leaderIndex(nodes); i >= 0 {
				again, err = ask(ctx, c, hc, nodes[i].Server)
			}
			if err == nil || !again || !sleep.For(ctx, askAgain) {
				return err
			}
		}
	})
}

// post sends a request about certificates to the leader.
func post(ctx context.Context, g *view.Globals, path string, in, out any) error {
	return atLeader(ctx, g, func(ctx context.Context, _ *client.Client, hc *http.Client, leader string) (again bool, err error) {
		err = enroll.Post(ctx, hc, leader+path, in, out)
		return !errors.As(err, new(*enroll.RefusedError)), err
	})
}

// askAgain is the pause between two requests.
const askAgain = time.Second

func newCertJoinTokenCommand(g *view.Globals) *cobra.Command {
	var in enroll.NewToken
	var sign bool
	ttl, lifetime, dir := time.Duration(0), time.Duration(0), ""
	cmd := &cobra.Command{
		Use:   "join-token NODE",
		Short: "Make a token with which a new machine gets the certificate of a node",
		Long: `Makes a token for one new node, and writes it to stdout. On the new machine,
osqueue join TOKEN makes a key and gets the certificate: no key is copied. The token is
for one use, for this name and these hosts only, and expires after --ttl. The first
machine that uses it gets the certificate, so protect it like a password. The command
needs a token of the role admin.

The request of the new machine has to be signed with ca.key: by a node with serve
--tls-ca-key, by osqueue cert sign, or by this command, which with --sign waits for it.`,
		Example: `  osqueue cert join-token n4 --host 10.0.0.4 --sign
  osqueue cert join-token n4 --host 10.0.0.4 --host n4.internal --http 10.0.0.4:8080 --ttl 10m`,
		RunE: func(cmd *cobra.Command, args []string) error {
			in.Node, in.TTL, in.Lifetime = args[0], ttl.Milliseconds(), lifetime.Milliseconds()
			if err := certs.CheckHosts(in.Hosts); err != nil {
				return view.Usagef("%v", err)
			}
			var a *certs.Authority
			if sign {
				var err error
				if a, err = certs.LoadAuthority(dir); err != nil {
					return err
				}
			}
			var made enroll.Made
			if err := post(cmd.Context(), g, enroll.TokenPath, in, &made); err != nil {
				return fmt.Errorf("make a join token for node %s: %w", in.Node, err)
			}
			if err := showJoinToken(g, made, sign); err != nil || !sign {
				return err
			}
			s := signing{g: g, authority: a, only: made.ID, until: time.UnixMilli(made.Expires)}
			return s.watch(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&in.Hosts, "host", nil, "host name or IP address by which others dial the node; may be repeated")
	f.StringVar(&in.HTTP, "http", "", "address of its HTTP port, as in --peers (default: the first --host, with the port of the leader)")
	view.SpanVar(f, &ttl, "ttl", enroll.DefaultTTL, "lifetime of the token")
	view.SpanVar(f, &lifetime, "lifetime", certs.NodeLifetime, "lifetime of the certificate")
	f.BoolVar(&sign, "sign", false, "wait for the request, and sign it with ca.key in --dir")
	f.StringVar(&dir, "dir", "certs", "directory of the CA, for --sign")
	return cmd
}

func showJoinToken(g *view.Globals, made enroll.Made, sign bool) error {
	if g.JSON {
		return g.WriteJSON(made)
	}
	if _, err := fmt.Fprintln(g.Out, made.Token); err != nil {
		return err
	}
	next := "its request is signed by a node with --tls-ca-key, or by: osqueue cert sign"
	if sign {
		next = "this command signs its request, and then ends"
	}
	_, err := fmt.Fprintf(g.Err, "until %s, on the new machine, which will have the address %s: osqueue join TOKEN\n%s\n",
		time.UnixMilli(made.Expires).Format(time.TimeOnly), made.HTTP, next)
	return err
}

func newCertSignCommand(g *view.Globals) *cobra.Command {
	dir, watch, list := "", false, false
	cmd := &cobra.Command{
		Use:   "sign",
		Short: "Sign the certificate requests of nodes",
		Long: `Signs, with ca.key in --dir, the certificates for which nodes have asked: new nodes with
a join token, and nodes whose certificate is in the last third of its life. The nodes
fetch and use them by themselves. The cluster decides which name and hosts a node gets,
and takes only certificates for these. It needs a token of the role admin.`,
		Example: `  osqueue cert sign --list
  osqueue cert sign`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s := signing{g: g}
			if list {
				pending, err := s.pending(cmd.Context())
				if err != nil {
					return err
				}
				return s.show(pending)
			}
			var err error
			if s.authority, err = certs.LoadAuthority(dir); err != nil {
				return err
			}
			if watch {
				return s.watch(cmd.Context())
			}
			signed, err := s.round(cmd.Context())
			return errors.Join(err, s.show(signed))
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "certs", "directory of the CA")
	cmd.Flags().BoolVar(&watch, "watch", false, "continue to sign until the command is stopped")
	cmd.Flags().BoolVar(&list, "list", false, "show the requests, and sign none")
	return cmd
}

// signing answers the certificate requests of a cluster with the key of the CA.
type signing struct {
	g         *view.Globals
	authority *certs.Authority
	only      string    // id of the only request; "": all
	until     time.Time // end of watch; zero: none
}

func (s *signing) pending(ctx context.Context) (out []enroll.Request, err error) {
	if err := post(ctx, s.g, enroll.PendingPath, struct{}{}, &out); err != nil {
		return nil, fmt.Errorf("list the certificate requests: %w", err)
	}
	return out, nil
}

// round signs what is pending, and returns what it has signed.
func (s *signing) round(ctx context.Context) (signed []enroll.Request, err error) {
	pending, err := s.pending(ctx)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, r := range pending {
		if s.only != "" && r.ID != s.only {
			continue
		}
		c, err := enroll.Sign(s.authority, &r)
		if err == nil {
			err = post(ctx, s.g, enroll.SignPath, enroll.Signed{ID: r.ID, Certificate: c.Raw}, &struct{}{})
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("the certificate of node %s: %w", r.Node, err))
			continue
		}
		signed = append(signed, r)
	}
	return signed, errors.Join(errs...)
}

// watch signs until ctx ends, the one request is signed, or it has expired.
func (s *signing) watch(ctx context.Context) error {
	for {
		signed, err := s.round(ctx)
		var refused *enroll.RefusedError
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // it was stopped
		case errors.As(err, &refused):
			return err
		case err != nil:
			_, _ = fmt.Fprintln(s.g.Err, err)
		}
		for _, r := range signed {
			if _, err := fmt.Fprintf(s.g.Err, "signed the certificate of node %s\n", r.Node); err != nil {
				return err
			}
		}
		switch {
		case s.only != "" && len(signed) > 0:
			return nil
		case !s.until.IsZero() && time.Now().After(s.until):
			return errors.New("the join token has expired, and no machine has used it: make another one with osqueue cert join-token")
		}
		if !sleep.For(ctx, askAgain) {
			return nil
		}
	}
}

// show prints requests.
func (s *signing) show(list []enroll.Request) error {
	if len(list) == 0 {
		return s.g.Print([]enroll.Request{}, "no certificate request is pending\n")
	}
	rows := [][]string{{"NODE", "REQUEST", "HOSTS", "MADE"}}
	for _, r := range list {
		kind := "join"
		if r.Renewal {
			kind = "renewal"
		}
		rows = append(rows, []string{r.Node, kind, strings.Join(r.Hosts, " "), r.Made.UTC().Format(time.RFC3339)})
	}
	return s.g.Details(list, rows)
}

func newJoinCommand(g *view.Globals) *cobra.Command {
	dir := ""
	cmd := &cobra.Command{
		Use:   "join TOKEN",
		Short: "Get the certificate of a new node with a join token",
		Long: `Makes a key on this machine, and gets the certificate of the node for which the token
was made (osqueue cert join-token). It checks that it talks to the cluster of the token
before it sends anything. TOKEN may be -, to read it from stdin, so that it is not in the
list of processes.

The command waits up to --timeout until the request is signed. It may be repeated while
the token is valid.`,
		Example: `  osqueue join osqj_eyJz… --dir /var/lib/osqueue-certs
  osqueue join - --dir /var/lib/osqueue-certs < token`,
		RunE: func(cmd *cobra.Command, args []string) error {
			text := args[0]
			if text == "-" {
				data, err := io.ReadAll(io.LimitReader(g.In, tokenInputMax))
				if err != nil {
					return err
				}
				text = string(data)
			}
			t, err := enroll.ParseToken(text)
			if err != nil {
				return view.Usagef("%v", err)
			}
			ctx := cmd.Context()
			if g.Timeout == 0 || !cmd.Flags().Changed("timeout") {
				g.Timeout = joinTimeout
			}
			ctx, cancel := context.WithTimeout(ctx, g.Timeout)
			defer cancel()
			j := enroll.Joiner{Token: t, Dir: dir, Waiting: func() {
				_, _ = fmt.Fprintln(g.Err, "waiting until the request is signed (where ca.key is: osqueue cert sign)")
			}}
			done, err := j.Join(ctx)
			if err != nil {
				return fmt.Errorf("join as node %s: %w", t.Name, err)
			}
			return showJoined(g, t.Name, done)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "certs", "directory for the files")
	return cmd
}

const (
	tokenInputMax = 8 << 10
	joinTimeout   = 15 * time.Minute
)

func showJoined(g *view.Globals, name string, done enroll.Joined) error {
	f := done.Files
	answer := map[string]string{"node": name, "ca": f.CA, "cert": f.Cert, "key": f.Key, "peers": done.Peers, "http": done.HTTP, "raft": done.Raft, "bucket": done.Bucket}
	return g.Print(answer, `made %[1]s, %[2]s and %[3]s

Start the node; DIR is an empty directory. The other nodes need no restart. An even number of
nodes survives no more losses than one node less:

  osqueue serve --security=on --name %[4]s --data DIR --bucket %[7]s \
    --http-addr %[6]s --raft-addr %[8]s \
    --peers %[5]s \
    --tls-ca %[3]s --tls-cert %[1]s --tls-key %[2]s
`, view.ShellWord(f.Cert), view.ShellWord(f.Key), view.ShellWord(f.CA), name, done.Peers, done.HTTP, view.ShellWord(done.Bucket), done.Raft)
}

// noLeaderAsked returns the reason why no answer came from a leader.
func noLeaderAsked(nodes []client.NodeStatus) error {
	if err := leaderless(nodes); err != nil {
		return err
	}
	return errors.New("the leader is not one of the servers: name all nodes with --servers")
}
