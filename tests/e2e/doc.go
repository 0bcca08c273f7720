// Package e2e holds the tests that run whole clusters of real processes and
// break them: what an operator would see, and what must hold whatever happens.
package e2e
