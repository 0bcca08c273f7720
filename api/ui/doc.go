// Package ui serves the dashboard of a node: pages about jobs, queues, schedules, workers and
// the cluster, under /ui.
//
// # Problem
//
// At night an operator asks: what is stuck, since when, why, and what do I press? The pages
// answer this in a browser, on every node, without another program to install.
//
// # No power of its own
//
// The dashboard calls the public API of its own node, in the same process, with the headers of
// the caller that carry rights. It knows the wire types only. Whatever the API refuses to a
// caller, the dashboard cannot do for that caller either.
//
// Pages show the state that the node has applied (consistency=local), so they work on every
// node, also while there is no leader. After an action the page waits for the LSN of that
// action.
//
// # Cost
//
// Each page makes a fixed number of calls, each bounded by the API: a page of a list, the
// figures of types, the status of the node. No page scans the queue. The page of dead jobs
// looks at the first deadScan dead jobs.
//
// # Security
//
// Templates escape every value by its context. The Content-Security-Policy allows only the
// script and the style sheet of this package; no page has inline script or style. Actions are
// forms that POST and redirect; http.CrossOriginProtection refuses those that another site
// sends. Pages cannot be framed, and are not cached.
//
// # Without JavaScript
//
// All pages and actions work. The script adds live values (it follows GET /v1/events and loads
// the page again in the background), the list of live events, the switch between light and
// dark, keys and copying.
package ui
