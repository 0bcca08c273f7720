// Package apply has the commands apply and export, which keep the settings of a queue in a file.
//
// # Problem
//
// The settings that operators make by command (types, limits, schedules, hooks, tokens) are in the cluster only: nobody
// reviews a change, and a second cluster is set up from memory. The file of apply says what they should be, in version
// control.
//
// # The file
//
// A YAML mapping with five parts. Their entries are bodies of the API, field for field (package v1, api/openapi.yaml), so
// this package has no list of fields: it decodes an entry into the wire type, and compares JSON.
//
//	queues: {TYPE: QueueSettings}     PATCH  /v1/queues/{type}
//	limits: {PATTERN: LimitRule}      PUT    /v1/limits/{name}
//	hooks:  {NAME: NewHook}           PUT    /v1/hooks/{name}
//	crons:  {NAME: NewCron}           PUT    /v1/crons/{name}
//	tokens: [NewToken]                POST   /v1/tokens
//
// # Rules
//
//   - An entry is complete: a field that it leaves out has its default. Only paused stays as it is when it is left out, so
//     that apply does not end a pause that an operator has made.
//   - The file is not complete: what it does not name stays, and apply says so. An entry that is null is removed, and a null
//     among fields is the default, as in the API.
//   - A token is in the cluster if one has the same name and rights. Rights cannot be changed, so other rights make a new
//     token; the old one stays until it is revoked by command. Tokens that expire are made by command, and are no part of a file.
//   - Secrets are in no file of settings. Those of new hooks and tokens go to files in a directory, --secrets.
//
// # Cuts and races
//
// apply reads the cluster, computes the steps, and makes one call of the API for each, in the order of the parts: jobs of
// schedules come last. There is no transaction. After a cut, or a mistake in an entry, the steps that were made stay, and
// the next run computes the others. Two operators at once write whole entries, so the last one counts. Both may make a
// token, which then exists twice.
//
// The file of a secret is made, empty, before its call and is filled after it. If a run is cut between, the next one finds an
// empty file of a hook or token that exists, and makes the secret again (rotation).
package apply
