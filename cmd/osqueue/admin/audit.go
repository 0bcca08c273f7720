package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/view"
	"osqueue/internal/sleep"
)

// auditEntry is an entry of the audit log, and its time.
type auditEntry struct {
	v1.AuditEntry
	at time.Time
}

func entryOf(e v1.AuditEntry) auditEntry {
	at, _ := time.Parse(time.RFC3339Nano, e.Time) // the zero time stands first
	return auditEntry{e, at}
}

// auditFilter chooses entries. Empty fields choose all.
type auditFilter struct {
	principal, action, object, outcome string // patterns of path.Match; in actions * also matches /
	since, until                       time.Time
}

const (
	// auditLineMax bounds a line, in bytes.
	auditLineMax = 1 << 20
	// auditLook is the interval at which --follow asks for new entries.
	auditLook = 500 * time.Millisecond
)

// newAuditCommand returns the command that reads audit logs.
func newAuditCommand(g *view.Globals) *cobra.Command {
	var f auditFilter
	var since, until view.Time
	var follow bool
	cmd := &cobra.Command{
		Use:   "audit [FILE…]",
		Short: "Read the audit log of the cluster, or of files",
		Long: `Without files, asks all nodes for the entries that they keep in memory (serve --audit-memory), and
merges them by time; this needs the role admin. A node loses these entries when it stops.

With files, reads what serve --audit-log has written and asks no node: the file that was written
first comes first, so that audit.log* is right after a rotation; - is stdin. The leader records
writes, and every node the requests that it refuses: give the files of all nodes to see all entries.

The filters are patterns, such as 'DELETE*' or mail-*. Lines that are not entries are counted on
stderr.`,
		Example: `  osqueue audit --since 1h --outcome forbidden
  osqueue audit --follow
  osqueue audit /var/log/osqueue/audit.log* --since 1h
  osqueue audit audit.log --principal 3kq* --action 'DELETE*' --json
  tail -F audit.log | osqueue audit - --outcome forbidden --json`,
		RunE: func(cmd *cobra.Command, files []string) error {
			if follow && len(files) > 0 {
				return view.Usagef("--follow asks the nodes; for a file run tail -F FILE | osqueue audit - --json")
			}
			f.since, f.until = since.At, until.At
			if err := f.check(); err != nil {
				return err
			}
			if len(files) == 0 {
				return askAudit(cmd.Context(), g, f, follow)
			}
			return readAudit(cmd.Context(), g, files, f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.principal, "principal", "", "pattern of the id of the token or identity; empty: all")
	flags.StringVar(&f.action, "action", "", "pattern of the method and route, such as 'POST /v1/jobs*'")
	flags.StringVar(&f.object, "object", "", "pattern of the id, type or name that the request is about")
	flags.StringVar(&f.outcome, "outcome", "", "pattern of the outcome: ok, or the tag of the refusal")
	view.TimeVar(flags, &since, true, "since", "only later entries: a time, or a duration before now such as 2h")
	view.TimeVar(flags, &until, true, "until", "only earlier entries: a time, or a duration before now")
	flags.BoolVarP(&follow, "follow", "f", false, "wait for new entries until Ctrl-C")
	return cmd
}

// check returns an error for a pattern that is none.
func (f *auditFilter) check() error {
	for _, pattern := range []string{f.principal, f.action, f.object, f.outcome} {
		if _, err := path.Match(pattern, ""); err != nil {
			return view.Usagef("%q is not a pattern: %v", pattern, err)
		}
	}
	return nil
}

// has reports whether the filter chooses an entry.
func (f *auditFilter) has(e *auditEntry) bool {
	switch {
	case !f.since.IsZero() && e.at.Before(f.since), !f.until.IsZero() && e.at.After(f.until):
		return false
	}
	return matches(f.principal, e.Principal) && matches(f.action, e.Action) && matches(f.object, e.Object) && matches(f.outcome, e.Outcome)
}

// matches is path.Match in which * matches / as well. An empty pattern matches all.
func matches(pattern, text string) bool {
	flat := func(s string) string {
		out := []byte(s)
		for i := range out {
			if out[i] == '/' {
				out[i] = 1
			}
		}
		return string(out)
	}
	ok, err := path.Match(flat(pattern), flat(text))
	return pattern == "" || ok && err == nil
}

// auditReader writes the chosen entries of files.
type auditReader struct {
	g      *view.Globals
	filter auditFilter
	table  view.LongTable
	bad    int // lines that are no entries
}

func newAuditReader(g *view.Globals, f auditFilter) *auditReader {
	columns := view.Columns("TIME", "PRINCIPAL", "+ADDRESS", "ACTION", "OBJECT", "LSN", "OUTCOME")
	return &auditReader{g: g, filter: f, table: view.LongTable{G: g, Columns: columns}}
}

func readAudit(ctx context.Context, g *view.Globals, files []string, f auditFilter) error {
	a := newAuditReader(g, f)
	slices.SortStableFunc(files, func(x, y string) int { return writtenAt(x).Compare(writtenAt(y)) })
	for _, name := range files {
		if err := a.file(ctx, name); err != nil {
			return err
		}
	}
	err := a.table.End()
	if a.bad > 0 {
		_, _ = fmt.Fprintf(g.Err, "%d lines are not entries of an audit log\n", a.bad) // stdout has the entries
	}
	return err
}

// writtenAt returns when a file was last written; the zero time if it does not say.
func writtenAt(name string) (at time.Time) {
	if info, err := os.Stat(name); err == nil {
		at = info.ModTime()
	}
	return at
}

// file reads a file to its end; - is stdin.
func (a *auditReader) file(ctx context.Context, name string) error {
	file, err := a.g.OpenInput(ctx, name)
	if err != nil {
		return err
	}
	defer file.Close()
	in := bufio.NewReaderSize(file, auditLineMax)
	for {
		line, err := in.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull): // no entry is that long
			a.bad++
			continue
		case errors.Is(err, io.EOF) && len(line) == 0:
			return nil
		case err != nil && !errors.Is(err, io.EOF):
			return err
		}
		if err := a.line(line); err != nil {
			return err
		}
	}
}

func (a *auditReader) line(line []byte) error {
	var e v1.AuditEntry
	if json.Unmarshal(line, &e) != nil || entryOf(e).at.IsZero() {
		a.bad++
		return nil //nolint:nilerr // the end of the output says how many lines are damaged
	}
	return a.entry(entryOf(e))
}

// entry writes an entry if the filter chooses it.
func (a *auditReader) entry(e auditEntry) error {
	if !a.filter.has(&e) {
		return nil
	}
	return a.table.Add(e, func() []string {
		return []string{
			e.at.UTC().Format(time.RFC3339), view.OrDash(e.Principal), e.Address, e.Action,
			view.OrDash(e.Object), view.OrDash(e.LSN), e.Outcome,
		}
	})
}

// auditNodes reads what the nodes of a cluster keep of their audit logs.
type auditNodes struct {
	*auditReader
	c       *client.Client
	cursors map[string]string // by address
	failed  map[string]bool   // nodes whose error was written
	kept    bool              // at least one node keeps entries
}

var errNoAudit = errors.New("no node returned its audit log")

// askAudit writes the chosen entries of all nodes, and with follow those that come until ctx ends.
func askAudit(ctx context.Context, g *view.Globals, f auditFilter, follow bool) error {
	c, err := g.Client()
	if err != nil {
		return err
	}
	defer c.Close()
	a := &auditNodes{auditReader: newAuditReader(g, f), c: c, cursors: make(map[string]string), failed: make(map[string]bool)}
	for {
		err := a.round(ctx)
		switch {
		case follow && ctx.Err() != nil:
			return nil
		case errors.Is(err, errNoAudit) && follow && a.kept: // the next round may find them again
		case err != nil:
			return err
		case !a.kept:
			return errors.New("no node keeps its audit log in memory: start serve with --security log or on, or with --audit-log, and without --audit-memory 0")
		case !follow:
			return nil
		}
		if !sleep.For(ctx, auditLook) {
			return nil
		}
	}
}

// round writes the entries of all nodes that are new, by time. It returns an error if no node
// has answered; a node that does not is named on stderr.
func (a *auditNodes) round(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, a.g.Timeout)
	defer cancel()
	servers, err := a.servers(ctx)
	if err != nil {
		return err
	}
	var entries []auditEntry
	failures := 0
	for _, server := range servers {
		some, err := a.node(ctx, server)
		if err != nil {
			failures++
			if !a.failed[server] {
				_, _ = fmt.Fprintf(a.g.Err, "%s: %v\n", server, err) // stdout has the entries
			}
		}
		a.failed[server] = err != nil
		entries = append(entries, some...)
	}
	if failures == len(servers) {
		return errNoAudit
	}
	slices.SortStableFunc(entries, func(x, y auditEntry) int { return x.at.Compare(y.at) })
	for i := range entries {
		if err := a.entry(entries[i]); err != nil {
			return err
		}
	}
	return a.table.End()
}

// servers returns the addresses of all nodes that an answering one knows.
func (a *auditNodes) servers(ctx context.Context) ([]string, error) {
	socket, err := a.g.Socket()
	if err != nil {
		return nil, err
	}
	var all []string
	for _, n := range a.c.StatusAll(ctx) {
		if n.Err == nil && socket == "" {
			for _, p := range n.Status.Peers {
				if p.HTTPAddress != "" && !slices.Contains(all, p.HTTPAddress) {
					all = append(all, p.HTTPAddress)
				}
			}
		}
		if len(all) > 0 {
			return all, nil
		}
	}
	return a.c.Servers(), nil // a node that shows no members, or the admin socket of one
}

// auditPage is the number of entries of a whole page.
const auditPage = 1000

// node returns the new entries of a node.
func (a *auditNodes) node(ctx context.Context, server string) (entries []auditEntry, err error) {
	for {
		page, err := a.c.AuditPage(ctx, server, a.cursors[server])
		if err != nil {
			return entries, err
		}
		a.kept = a.kept || page.Kept > 0
		if page.Missed > 0 {
			_, _ = fmt.Fprintf(a.g.Err, "%s has removed %d entries from memory\n", page.Node, page.Missed)
		}
		for i := range page.Entries {
			entries = append(entries, entryOf(page.Entries[i]))
		}
		a.cursors[server] = page.NextCursor
		if len(page.Entries) < auditPage { // a busy node has new ones at once
			return entries, nil
		}
	}
}
