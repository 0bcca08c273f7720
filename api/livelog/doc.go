// Package livelog keeps what running jobs write while a reader follows them. DESIGN.md has the
// problem, the states and the bounds.
package livelog
