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
// The dashboard calls the public API of its own node, in the same process, with the token of
// the caller: that of the Authorization header, or of the session. It knows the wire types only. Whatever the API refuses to a
// caller, the dashboard cannot do for that caller either.
//
// Pages show the state that the node has applied (consistency=local), so they work on every
// node, also while there is no leader. After an action the page waits for the LSN of that
// action.
//
// # Cost
//
// Each page makes a bounded number of calls, each bounded by the API: a page of a list, the
// figures of types, the status of the node. No page scans the queue, except a list of jobs that
// looks for its first one, for firstTime. The page of dead jobs looks at the first deadScan dead
// jobs.
//
// # Security
//
// Templates escape every value by its context. The Content-Security-Policy allows only the
// script and the style sheet of this package; no page has inline script or style. Actions are
// forms that POST and redirect; http.CrossOriginProtection refuses those that another site
// sends. Pages cannot be framed, and are not cached.
//
// # Sessions
//
// If the node asks for tokens, a page without one leads to /ui/login. A session is a cookie with
// a random key, bound to host and port and limited to sessionLife; the token stays in the memory
// of the node (tickets), which bounds the sessions in number. So a session ends with the process
// and with the sign-out. The cookie is HttpOnly, SameSite=Lax and, with TLS, Secure with the
// prefix __Host-. Only the dashboard reads it: the API takes tokens from headers alone, which no
// page of another site can send.
//
// POST /ui/link makes a link for a caller with a token: its code opens one session, once and
// within linkLife. The page behind the link shows a button first, because programs that look
// at links ahead must not use the code up.
//
// # Without JavaScript
//
// All pages and actions work. The script adds live values (it follows GET /ui/stream, the events of the API, and loads
// the page again in the background), the node's knowledge of the leader (it reads GET /ui/where every second), the list
// of live events, the switch between light and dark, keys and copying.
package ui
