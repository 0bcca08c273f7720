// Package admin is about tokens, hooks, the audit log and the document. Its operations stand on package core, which says what a call is
// and how it fails; none of them knows a front end or another subject.
package admin
