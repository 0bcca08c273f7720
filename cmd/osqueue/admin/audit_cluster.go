package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"osqueue/client"
	"osqueue/cmd/osqueue/view"
	"osqueue/internal/sleep"
)

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
