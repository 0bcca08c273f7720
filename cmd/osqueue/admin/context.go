package admin

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"osqueue/client"
	"osqueue/client/contexts"
	"osqueue/cmd/osqueue/view"
)

// newContextCommand returns the commands about contexts.
func newContextCommand(g *view.Globals) *cobra.Command {
	cmd := view.NewGroup("context", "Keep servers, CA and token of clusters under names",
		`A context holds the servers of a cluster, its CA and an access token in a file that only you
may read, below ~/.config/osqueue (or XDG_CONFIG_HOME). Commands, and the clients for Go,
Python and JavaScript, take the one that --context or OSQUEUE_CONTEXT names, else the current
one. Flags and OSQUEUE_SERVERS, OSQUEUE_CA, OSQUEUE_TOKEN beat it. The current context is left
out, with its token, when the servers that you give are not servers of it.`)
	cmd.AddCommand(newContextAddCommand(g), newContextUseCommand(g), newContextListCommand(g), newContextShowCommand(g), newContextRemoveCommand(g))
	return cmd
}

func newContextAddCommand(g *view.Globals) *cobra.Command {
	var use bool
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Store servers, CA and token under a name",
		Long: `Stores --servers, --ca and the token of --token-file, or of OSQUEUE_SERVERS, OSQUEUE_CA and
OSQUEUE_TOKEN, under a name, and replaces the context of that name. The files are copied: you
may delete them. The first context becomes the current one.`,
		Example: `  osqueue context add prod --servers 10.0.0.1:8080,10.0.0.2:8080,10.0.0.3:8080 \
    --ca ca.crt --token-file token --use`,
		RunE: func(_ *cobra.Command, args []string) error { return addContext(g, args[0], use) },
	}
	cmd.Flags().BoolVar(&use, "use", false, "make it the current context")
	return cmd
}

func addContext(g *view.Globals, name string, use bool) error {
	if err := contexts.CheckName(name); err != nil {
		return &view.UsageError{Err: err}
	}
	c, err := g.GivenContext()
	if err != nil {
		return err
	}
	if err := checkContext(c); err != nil {
		return err
	}
	store := g.Contexts()
	current, err := store.Current()
	if err == nil {
		err = store.Put(name, c)
	}
	if err == nil && (use || current == "") {
		return useContext(g, name)
	}
	return err
}

// useContext makes a context the current one, and says so.
func useContext(g *view.Globals, name string) error {
	if err := g.Contexts().Use(name); err != nil {
		return err
	}
	return g.Printf("%s is the current context\n", name)
}

// checkContext returns an error for a context with which no client can be made.
func checkContext(c contexts.Context) error {
	if len(c.Servers) == 0 {
		return view.Usagef("osqueue context add: give --servers")
	}
	cfg := client.Config{Servers: c.Servers}
	if c.CA != "" {
		secure, err := client.TLSOf([]byte(c.CA), "", "")
		if err != nil {
			return view.Usagef("--ca: %v", err)
		}
		cfg.TLS = secure
	}
	made, err := client.New(cfg)
	if err != nil {
		return view.Usagef("--servers: %v", err)
	}
	made.Close()
	return nil
}

func newContextUseCommand(g *view.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "use NAME",
		Short: "Make a context the current one",
		Long:  `Selects the context that commands use without --context and OSQUEUE_CONTEXT.`,
		RunE:  func(_ *cobra.Command, args []string) error { return useContext(g, args[0]) },
	}
}

// contextRow is a context without its secrets.
type contextRow struct {
	Name    string   `json:"name"`
	Current bool     `json:"current"`
	Servers []string `json:"servers"`
	CA      bool     `json:"ca"`
	Token   string   `json:"tokenId,omitzero"`
	Error   string   `json:"error,omitzero"`
}

// describeContext reads a context. One that cannot be read has an error in its row.
func describeContext(store contexts.Store, name, current string) contextRow {
	row := contextRow{Name: name, Current: name == current, Servers: []string{}}
	c, err := store.Get(name)
	if err != nil {
		row.Error = err.Error()
		return row
	}
	row.Servers, row.CA = c.Servers, c.CA != ""
	if parts := strings.Split(c.Token, "_"); len(parts) == 4 {
		row.Token = parts[1]
	} else if c.Token != "" {
		row.Token = "of another program"
	}
	return row
}

func newContextListCommand(g *view.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "ls",
		Short: "List the contexts; * marks the current one",
		Long:  `Lists the contexts, without their tokens.`,
		RunE: func(*cobra.Command, []string) error {
			store := g.Contexts()
			names, err := store.List()
			if err != nil {
				return err
			}
			current, err := currentContext(g)
			if err != nil {
				return err
			}
			rows := make([]contextRow, len(names))
			for i, name := range names {
				rows[i] = describeContext(store, name, current)
			}
			return showContexts(g, rows, rows...)
		},
	}
}

// currentContext returns the name of the context that commands take if no flag is given.
func currentContext(g *view.Globals) (string, error) {
	if name := g.Getenv(contexts.EnvContext); name != "" {
		return name, nil
	}
	return g.Contexts().Current()
}

// showContexts prints contexts, or v for programs.
func showContexts(g *view.Globals, v any, rows ...contextRow) error {
	table := [][]string{{"", "NAME", "SERVERS", "TLS", "TOKEN"}}
	for _, row := range rows {
		mark, tls := "", "no"
		if row.Current {
			mark = "*"
		}
		if row.CA {
			tls = "yes"
		}
		servers := strings.Join(row.Servers, ",")
		if row.Error != "" {
			servers, tls = row.Error, ""
		}
		table = append(table, []string{mark, row.Name, servers, tls, row.Token})
	}
	return g.Details(v, table)
}

func newContextShowCommand(g *view.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "show [NAME]",
		Short: "Show a context, by default the current one, without its token",
		Long:  `Shows a context. TOKEN is the id of the token, which osqueue token ls shows too.`,
		RunE: func(_ *cobra.Command, args []string) error {
			current, err := currentContext(g)
			if err != nil {
				return err
			}
			name := current
			if g.Context != "" {
				name = g.Context
			}
			if len(args) > 0 {
				name = args[0]
			}
			if name == "" {
				return errors.New("there is no current context; choose one with osqueue context use")
			}
			row := describeContext(g.Contexts(), name, current)
			if row.Error != "" {
				return errors.New(row.Error)
			}
			return showContexts(g, row, row)
		},
	}
}

func newContextRemoveCommand(g *view.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "rm NAME",
		Short: "Delete a context",
		Long:  `Deletes a context. Its token stays valid: revoke it with osqueue token revoke.`,
		RunE:  func(_ *cobra.Command, args []string) error { return g.Contexts().Remove(args[0]) },
	}
}
