// Package model checks what a test saw against what osqueue promises. The
// checkers are pure: they take records and return the first thing that is
// wrong, in words.
package model
