package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/internal/auth/certs"
	"osqueue/internal/auth/enroll"
	"osqueue/internal/cli/view"
	"osqueue/internal/sleep"
)

// renewTimeout bounds cert trust --renew if --timeout is not given.
const renewTimeout = 2 * time.Minute

func newCertTrustCommand(g *view.Globals) *cobra.Command {
	t := trusting{g: g}
	var renew, retire bool
	dir := ""
	cmd := &cobra.Command{
		Use:   "trust",
		Short: "Send the certificates of the CA to all nodes, and replace the CA",
		Long: `Sends ca.crt in --dir to every node. A node takes a new CA only if the CA that it trusts
has endorsed it (osqueue cert ca --rotate does that), so an admin token is not enough to
replace a CA. No node is changed unless all would be. The command may be repeated.

To replace the CA without an interruption:

  osqueue cert ca --rotate      # makes the new CA
  osqueue cert trust            # the nodes trust both
  …                             # copy ca.crt to the clients, which then trust both
  osqueue cert trust --renew    # the nodes get certificates of the new CA, signed here
  osqueue cert trust --retire   # the nodes and ca.crt trust the new one only

The command calls the HTTP ports of all nodes and needs a token of the role admin.

` + view.ExitHelp,
		Example: `  osqueue cert trust --dir certs
  osqueue cert trust --retire --without n3`,
		Args: view.UsageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if renew && retire {
				return view.Usagef("--renew and --retire: give one of them; the second needs the result of the first")
			}
			if renew && !cmd.Flags().Changed("timeout") {
				g.Timeout = renewTimeout
			}
			var err error
			if t.authority, err = certs.LoadAuthority(dir); err != nil {
				return err
			}
			g.PreferCA(filepath.Join(dir, certs.CAFile))
			if socket, err := g.Socket(); err != nil || socket != "" {
				return errors.Join(err, view.Usagef("osqueue cert trust calls all nodes: give --servers and a token, not --data"))
			}
			return g.WithClient(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				return t.run(ctx, c, renew, retire)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&dir, "dir", "certs", "directory of the CA")
	f.BoolVar(&renew, "renew", false, "sign new certificates of all nodes with the newest CA")
	f.BoolVar(&retire, "retire", false, "remove the previous certificate of the CA from the nodes and from --dir")
	f.StringSliceVar(&t.without, "without", nil, "node to leave out, because it is down: copy ca.crt to it before it starts; may be repeated")
	return cmd
}

// trusting changes the CA's certificates of all nodes.
type trusting struct {
	g         *view.Globals
	authority *certs.Authority
	without   []string
	http      *http.Client
	nodes     []v1.Peer
}

func (t *trusting) run(ctx context.Context, c *client.Client, renew, retire bool) (err error) {
	if t.http, err = t.g.HTTPClient(); err != nil {
		return err
	}
	defer t.http.CloseIdleConnections()
	if t.nodes, err = t.members(ctx, c); err != nil {
		return err
	}
	bundle, err := t.authority.Bundle(retire)
	if err != nil {
		return err
	}
	if _, err := t.all(ctx, enroll.Trust{Bundle: bundle, Check: true}); err != nil {
		return fmt.Errorf("no node was changed: %w", err)
	}
	done, err := t.all(ctx, enroll.Trust{Bundle: bundle, Renew: renew})
	if err == nil && renew {
		done, err = t.renewed(ctx, bundle)
	}
	if err == nil && retire && len(t.authority.Certificates()) > 1 {
		err = t.authority.Retire()
	}
	return errors.Join(err, t.show(done))
}

// members returns the nodes of the cluster that are to be changed.
func (t *trusting) members(ctx context.Context, c *client.Client) (out []v1.Peer, err error) {
	for {
		nodes := c.StatusAll(ctx)
		i := leaderIndex(nodes)
		if i < 0 {
			if !sleep.For(ctx, askAgain) {
				return nil, noLeaderAsked(nodes)
			}
			continue
		}
		left := slices.Clone(t.without)
		for _, p := range nodes[i].Status.Peers {
			n := slices.Index(left, p.Name)
			switch {
			case n >= 0:
				left = slices.Delete(left, n, n+1)
			case p.HTTPAddress == "":
				return nil, fmt.Errorf("the leader does not know the HTTP address of node %s: start it, or give --without %s", p.Name, p.Name)
			default:
				out = append(out, p)
			}
		}
		if len(left) > 0 {
			return nil, view.Usagef("--without %s: there is no such node", left[0])
		}
		return out, nil
	}
}

// all sends a request to all nodes.
func (t *trusting) all(ctx context.Context, in enroll.Trust) (out []enroll.Trusted, err error) {
	var errs []error
	for _, p := range t.nodes {
		answer, err := t.one(ctx, p, in)
		if err != nil {
			errs = append(errs, fmt.Errorf("node %s: %w", p.Name, err))
			continue
		}
		out = append(out, answer)
	}
	return out, errors.Join(errs...)
}

// one sends a request to a node until it has an answer or ctx ends.
func (t *trusting) one(ctx context.Context, p v1.Peer, in enroll.Trust) (out enroll.Trusted, err error) {
	for {
		err = enroll.Post(ctx, t.http, "https://"+p.HTTPAddress+enroll.TrustPath, in, &out)
		if err == nil && out.Node != p.Name {
			return out, fmt.Errorf("its address %s is that of node %q: check --http-advertise of both", p.HTTPAddress, out.Node)
		}
		var refused *enroll.RefusedError
		if err == nil || errors.As(err, &refused) || !sleep.For(ctx, askAgain) {
			return out, err
		}
	}
}

// renewed signs requests until all nodes have a certificate of the newest CA.
func (t *trusting) renewed(ctx context.Context, bundle certs.Bundle) (out []enroll.Trusted, err error) {
	s := signing{g: t.g, authority: t.authority}
	for {
		signed, err := s.round(ctx)
		if err == nil {
			out, err = t.all(ctx, enroll.Trust{Bundle: bundle, Renew: true})
		}
		waits := func(n enroll.Trusted) bool { return !n.Renewed }
		if err == nil && !slices.ContainsFunc(out, waits) {
			return out, nil
		}
		if !sleep.For(ctx, askAgain) {
			if err == nil {
				err = fmt.Errorf("not all nodes have a certificate of the newest CA (%d were signed in the last round): repeat the command", len(signed))
			}
			return out, err
		}
	}
}

// show prints the answers of the nodes.
func (t *trusting) show(done []enroll.Trusted) error {
	if t.g.JSON {
		return t.g.WriteJSON(append([]enroll.Trusted{}, done...))
	}
	if len(done) == 0 {
		return nil
	}
	rows := [][]string{{"NODE", "CA.CRT", "CERTIFICATE"}}
	for _, n := range done {
		file, certificate := "as before", "of the previous CA"
		if n.Changed {
			file = "replaced"
		}
		if n.Renewed {
			certificate = "of the newest CA"
		}
		rows = append(rows, []string{n.Node, file, certificate})
	}
	return t.g.Table(rows)
}
