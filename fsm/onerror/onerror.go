// Package onerror has the rules by which a job decides about its next attempt from the class of an error.
package onerror

import (
	"errors"
	"strings"
	"unicode/utf8"

	"osqueue/fsm/fsmpb"
)

// The limits of rules.
const (
	Max      = 16 // rules of a job
	ClassMax = 64 // bytes of a class
)

// Any is the class of a rule that matches every failure, also one without a class.
const Any = "*"

var errRule = errors.New("the rules for errors are too many, or have an invalid class or delay")

// ValidClass reports whether a failure may have that class; "" is none.
func ValidClass(class string) bool { return len(class) <= ClassMax && utf8.ValidString(class) }

// Check refuses rules that no job can have.
func Check(rules []*fsmpb.OnError) error {
	for _, r := range rules {
		if r.GetClass() == "" || !ValidClass(r.Class) || r.DelayMs < 0 || r.Dead && r.DelayMs != 0 || len(rules) > Max {
			return errRule
		}
	}
	return nil
}

// Of returns the first rule that matches a class, or nil.
func Of(rules []*fsmpb.OnError, class string) *fsmpb.OnError {
	for _, r := range rules {
		if r.Class == class || r.Class == Any {
			return r
		}
	}
	return nil
}

// Clone copies rules, which would keep a log entry in memory.
func Clone(rules []*fsmpb.OnError) (out []*fsmpb.OnError) {
	for _, r := range rules {
		out = append(out, &fsmpb.OnError{Class: strings.Clone(r.GetClass()), Dead: r.GetDead(), DelayMs: r.GetDelayMs()})
	}
	return out
}

// Size returns the bytes of the classes.
func Size(rules []*fsmpb.OnError) (n int) {
	for _, r := range rules {
		n += len(r.GetClass())
	}
	return n
}
