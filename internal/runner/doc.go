// Package runner has handlers for jobs that run programs or call services: a command
// line that an operator wrote (Command), a command in the payload (Commands), a function
// in Python source (Python) and a service behind a URL (HTTP). The command
// `osqueue worker` offers them; a program that only needs handlers in Go imports
// client/worker alone.
//
// # Problem
//
// A payload comes from any producer. A handler must not let it decide more than the
// operator allowed: which program runs, which file is read, which address is called.
//
// # Rules
//
//   - A command line is split into words once, without a shell. A value from the payload
//     becomes exactly one argument and is never parsed.
//   - Commands and Python run what the payload says. The worker runs them in a sandbox.Box
//     unless its operator asked for none.
//   - HTTP checks the address that is dialled, not the name, so that a name that changes
//     its address between check and use gains nothing.
//   - Output, log and answers are bounded in bytes.
//
// # Failure stance
//
// A program that this machine does not have delays the job, since another worker may have
// it. Input that no attempt can change (a template without its value, arguments that the
// system refuses) fails the job for good. When the handler's context ends, the program and
// all processes that it has started are killed, whatever they do.
package runner
