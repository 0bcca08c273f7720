package runner

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"osqueue/client/worker"
	"osqueue/internal/sandbox"
)

// AnyExit is the key of an ExitPolicy for every status without a key of its own.
const AnyExit = -1

// tempFail is EX_TEMPFAIL of sysexits.h: try again later.
const tempFail = 75

// ExitAction is the action after an exit status. The zero value fails the attempt; while
// attempts are left, another one follows by the job's backoff.
type ExitAction struct {
	Dead  bool          // the job becomes dead, because no other attempt can help
	Retry bool          // another attempt follows after Delay, independently of the job's backoff
	Delay time.Duration // 0: at once

	Suspend bool // the job waits for what the command has said (commandsuspend.go)
}

// ExitPolicy maps exit statuses to actions.
type ExitPolicy map[int]ExitAction

// DefaultExits returns the policy that tries again ten seconds after the status 75
// (EX_TEMPFAIL), and suspends the job after 79.
func DefaultExits() ExitPolicy {
	return ExitPolicy{tempFail: {Retry: true, Delay: startPause}, suspendExit: {Suspend: true}}
}

// ParseExits adds rules of the form CODE=ACTION to the default policy. CODE is a status
// from 1 to 255, or * for all others. ACTION is fail, dead, retry or retry:DURATION.
func ParseExits(rules []string) (ExitPolicy, error) {
	policy := maps.Clone(DefaultExits())
	for _, rule := range rules {
		code, action, err := parseExit(rule)
		if err != nil {
			return nil, err
		}
		policy[code] = action
	}
	return policy, nil
}

func parseExit(rule string) (code int, action ExitAction, err error) {
	left, right, found := strings.Cut(rule, "=")
	code = AnyExit
	if left != "*" {
		if code, err = strconv.Atoi(left); err != nil || code < 1 || code > 255 {
			found = false
		}
	}
	name, delay, delayed := strings.Cut(right, ":")
	switch name {
	case "fail":
	case "dead":
		action.Dead = true
	case "suspend":
		action.Suspend = true
	case "retry":
		action.Retry = true
		if delayed {
			if action.Delay, err = time.ParseDuration(delay); err != nil || action.Delay < 0 {
				found = false
			}
		}
	default:
		found = false
	}
	if !found || delayed && name != "retry" {
		return 0, action, fmt.Errorf("exit rule %q: write CODE=fail, CODE=dead, CODE=suspend, CODE=retry or CODE=retry:30s, with a CODE from 1 to 255 or *", rule)
	}
	return code, action, nil
}

func (p ExitPolicy) action(code int) ExitAction {
	if action, ok := p[code]; ok {
		return action
	}
	return p[AnyExit]
}

// failure returns the handler's error for a command that failed.
func (p ExitPolicy) failure(res sandbox.Result, err error) error {
	failed := withLog(err, res.Log)
	var ended *exec.ExitError
	switch {
	case cannotStart(err):
		return worker.RetryAfter(startPause, failed)
	case malformed(err):
		return worker.Permanent(failed)
	case !errors.As(err, &ended), res.Exit < 0:
		return failed
	}
	failed = worker.Class(failed, "exit:"+strconv.Itoa(res.Exit))
	switch action := p.action(res.Exit); {
	case action.Dead:
		return worker.Permanent(failed)
	case action.Retry:
		return worker.RetryAfter(action.Delay, failed)
	}
	return failed
}

// startPause delays a job if this machine lacks its program, so that the job does not
// use up all its attempts here at once.
const startPause = 10 * time.Second

// cannotStart reports whether this machine cannot start the program, although another
// machine may.
func cannotStart(err error) bool {
	var ended *exec.ExitError
	return !errors.As(err, &ended) &&
		(errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission))
}

// malformed reports whether the system cannot accept the arguments: they are too long,
// or contain a NUL.
func malformed(err error) bool {
	return errors.Is(err, syscall.E2BIG) || errors.Is(err, syscall.EINVAL)
}

// withLog adds the end of stderr to an error.
func withLog(err error, log string) error {
	if log == "" {
		return err
	}
	return &worker.LoggedError{Err: err, Log: log}
}
