// Package observe checks what nodes tell about themselves: spans, metrics and their truth over
// failovers. It runs real processes.
package observe
