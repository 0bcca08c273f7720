package admin

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/view"
)

// newTokenCommand returns the commands about access tokens.
func newTokenCommand(g *view.Globals) *cobra.Command {
	cmd := view.NewGroup("token", "Make, list, replace and revoke access tokens",
		`Make, list, replace and revoke access tokens, which nodes with --security=on ask for.
These commands need a token of the role admin, in OSQUEUE_TOKEN or --token-file. They
need none on the machine of a node, for the user of the node: they use the socket
admin.sock in its data directory (--data DIR, or OSQUEUE_DATA).`)
	cmd.AddCommand(newTokenCreateCommand(g), g.InBucket(newTokenListCommand(g)),
		g.InBucket(view.ShowCommand(g, "ID", "Show one token, without its secret", "Shows one token with its limits and the used part of its quota.", tokenOf, tokenRows)),
		newTokenRevokeCommand(g), newTokenRotateCommand(g))
	return cmd
}

func newTokenCreateCommand(g *view.Globals) *cobra.Command {
	var in v1.NewToken
	ttl := time.Duration(0)
	cmd := &cobra.Command{
		Use:   "create --role ROLE",
		Short: "Make a token and write it to stdout",
		Long: `Makes a token and writes it to stdout. The cluster keeps only its hash: store the token
now.`,
		Example: `  osqueue token create --data /var/lib/osqueue --role admin --name ops
  osqueue token create --role producer --type mail --type 'film.*' --ttl 720h`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if in.Role == "" {
				return view.Usagef("osqueue token create: give --role: producer, worker, reader, operator or admin")
			}
			in.TTLMs = ttl.Milliseconds()
			return g.WithClient(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				made, err := c.CreateToken(ctx, in)
				if err != nil {
					return err
				}
				return g.Print(made, "%s\n", made.Token)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&in.Role, "role", "", "producer, worker, reader, operator or admin")
	f.StringVar(&in.Name, "name", "", "name that lists show")
	f.StringSliceVar(&in.Types, "type", nil, "pattern of the types that it may use, such as film.*; may be given several times (default: all)")
	f.StringSliceVar(&in.Groups, "group", nil, "pattern of the groups that it may use; may be given several times (default: all)")
	f.StringVar(&in.Tenant, "tenant", "", "owner of the batches, schedules, unique keys and worker names of a token with --type or --group; tokens with the same one share them (default: the token and those that replace it)")
	f.BoolVar(&in.Programs, "programs", false, "allow new jobs of types that run programs (serve --program-types)")
	f.Float64Var(&in.RatePerSecond, "rate", 0, "requests per second to each node; 0 is no limit")
	f.Int64Var(&in.Burst, "burst", 0, "requests that may come at once")
	f.Var(view.Size(&in.MaxPayload), "max-payload", "how large one payload may be; 0 is no limit")
	f.Int64Var(&in.MaxJobs, "max-jobs", 0, "how many of its jobs may be pending; 0 is no limit")
	f.Var(view.Size(&in.MaxBytes), "max-bytes", "how many bytes of its requests are kept: pending jobs, open batches, schedules and registered workers; 0 is no limit")
	view.SpanVar(f, &ttl, "ttl", 0, "lifetime; 0 is no limit")
	return cmd
}

func newTokenListCommand(g *view.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "ls",
		Short: "List the tokens, without their secrets",
		Long: `Lists the tokens, without their secrets. USED is the last use, recorded about once an
hour. With -o wide, JOBS and BYTES are the used part of the token's quota, and the quota.`,
		RunE: g.Call(func(ctx context.Context, c *client.Client, _ []string) error {
			all, err := c.Tokens(ctx)
			if err != nil {
				return err
			}
			if g.JSON {
				return g.WriteJSON(all)
			}
			return tokenTable(g, all)
		}),
	}
}

func tokenTable(g *view.Globals, all []v1.AccessToken) error {
	// Without the wide columns: 16 + 8 + 12 + 12 + 10 + 10, and 5 gaps of 2.
	columns := view.Columns("ID", "ROLE", "NAME", "TYPES", "+JOBS", "+BYTES", "EXPIRES", "USED", "+MADE BY")
	when, text := day, func(s string) string { return view.Shorten(s, tokenTextMax) }
	if g.Wide() {
		when, text = func(ms int64) string { return moment(ms, "never") }, func(s string) string { return s }
	}
	var rows [][]string
	for _, k := range all {
		rows = append(rows, []string{
			k.ID, k.Role, text(k.Name), text(strings.Join(k.Types, ",")), quota(k.Jobs, k.MaxJobs), quota(k.Bytes, k.MaxBytes), when(k.ExpiresAt), when(k.UsedAt), k.MadeBy,
		})
	}
	return g.TableOf(columns, rows)
}

// tokenTextMax is the width of a name, or of a list of types, without -o wide.
const tokenTextMax = 12

// day returns the day of a time in ms.
func day(ms int64) string {
	if ms == 0 {
		return "never"
	}
	return time.UnixMilli(ms).Local().Format(time.DateOnly)
}

// quota returns the used part of a quota, and the quota.
func quota(used, limit int64) string {
	if limit == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d", used, limit)
}

func tokenOf(c *client.Client, ctx context.Context, id string) (k v1.AccessToken, err error) {
	all, err := c.Tokens(ctx)
	if err != nil {
		return k, err
	}
	at := slices.IndexFunc(all, func(k v1.AccessToken) bool { return k.ID == id })
	if at < 0 {
		return k, fmt.Errorf("token %q does not exist, or has expired", id)
	}
	return all[at], nil
}

// tokenRows are the lines about one token. Limits that it does not have are left out.
func tokenRows(k v1.AccessToken) [][]string {
	programs, rate := "", ""
	if k.Programs {
		programs = "allowed"
	}
	if k.RatePerSecond > 0 {
		rate = fmt.Sprintf("%g/s, burst %d", k.RatePerSecond, max(k.Burst, 1))
	}
	return view.NonEmptyRows(
		[]string{"ID", k.ID},
		[]string{"ROLE", k.Role},
		[]string{"NAME", k.Name},
		[]string{"TYPES", strings.Join(k.Types, ",")},
		[]string{"GROUPS", strings.Join(k.Groups, ",")},
		[]string{"TENANT", k.Tenant},
		[]string{"PROGRAMS", programs},
		[]string{"RATE", rate},
		[]string{"MAX PAYLOAD", view.CountOrNone(k.MaxPayload)},
		[]string{"PENDING JOBS", quota(k.Jobs, k.MaxJobs)},
		[]string{"PENDING BYTES", quota(k.Bytes, k.MaxBytes)},
		[]string{"CREATED", moment(k.CreatedAt, "")},
		[]string{"MADE BY", k.MadeBy},
		[]string{"EXPIRES", moment(k.ExpiresAt, "never")},
		[]string{"USED", moment(k.UsedAt, "never")},
	)
}

// moment returns a time in ms for people.
func moment(ms int64, none string) string {
	if ms == 0 {
		return none
	}
	return time.UnixMilli(ms).UTC().Format(time.RFC3339)
}

func newTokenRevokeCommand(g *view.Globals) *cobra.Command {
	overlap := time.Duration(0)
	cmd := &cobra.Command{
		Use:   "revoke ID",
		Short: "Revoke a token",
		Long:  `Revokes a token on all nodes. Its waiting requests end within a second.`,
		RunE: g.Call(func(ctx context.Context, c *client.Client, args []string) error {
			return c.RevokeToken(ctx, args[0], overlap)
		}),
	}
	view.SpanVar(cmd.Flags(), &overlap, "overlap", 0, "how long it stays valid")
	return cmd
}

func newTokenRotateCommand(g *view.Globals) *cobra.Command {
	overlap, ttl := time.Duration(0), time.Duration(0)
	cmd := &cobra.Command{
		Use:   "rotate ID",
		Short: "Replace a token by a new one with the same rights",
		Long: `Makes a token with the same rights, and writes it to stdout. The old token stays valid for
--overlap, until programs use the new one.`,
		RunE: g.Call(func(ctx context.Context, c *client.Client, args []string) error {
			made, err := c.RotateToken(ctx, args[0], v1.RotateToken{OverlapMs: overlap.Milliseconds(), TTLMs: ttl.Milliseconds()})
			if err != nil {
				return err
			}
			return g.Print(made, "%s\n", made.Token)
		}),
	}
	view.SpanVar(cmd.Flags(), &overlap, "overlap", time.Hour, "how long the old token stays valid")
	view.SpanVar(cmd.Flags(), &ttl, "ttl", 0, "lifetime of the new token; 0 is as long as that of the old one")
	return cmd
}
