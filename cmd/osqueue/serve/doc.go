// Package serve has the command serve, which composes and runs one node of a cluster.
//
// The node's parts know nothing of each other: the bucket with its limits and its meter,
// the raft node, the inbox, the HTTP API, the contracts of legacy clients, metrics and profiles.
// assemble starts them in one order and run stops them in an order that loses no request
// (server.go). server has the running parts.
//
//   - Settings: settings.go has one table of them. A flag takes precedence over its environment
//     variable, that over the file of --config, and that over the environment of the legacy
//     broker (legacy_env.go). All settings are checked before anything starts (options.go;
//     compat.go for legacy clients).
//   - Reloads: at SIGHUP, and when a file has changed, the settings are read and checked as at a start
//     (reload.go). If there is a mistake, nothing changes. Otherwise the level of the log, the
//     settings of jobs, which the leader puts into the log, and the identities are replaced; the log
//     names the settings that need a restart. The certificates are read by their users (package certs).
//   - A new node does not start on a bucket that ignores its conditions or does not
//     answer. A node that has run before starts without the bucket and continues the check
//     (bucket.go).
//   - While the node is the active leader it delivers webhooks (hooks.go) and takes jobs out of
//     the inbox (inbox.go).
//   - After a fatal error, or if a part hangs during the stop, the process exits within a
//     bounded time (exit_guard.go).
//
// With the build tag faultclock the wall clock can be set wrong and the disk can hang, for
// tests (clock_fault.go).
package serve
