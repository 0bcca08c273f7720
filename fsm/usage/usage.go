// Package usage counts what the state keeps of each producer with a quota, and the size of batches, schedules and registrations.
// It decides nothing; package fsm does.
package usage

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"osqueue/fsm/fsmpb"
	"osqueue/fsm/job"
)

// Used is a number of jobs, and the size of what they have of their producer.
type Used struct {
	Jobs  int64
	Bytes int64
}

// account counts the jobs of one producer with a quota: a family of tokens, or another
// identity. It is derived from the jobs, so that every way to a state gives the same counts,
// and exists while it has jobs.
//
// A job names its account in its options. Jobs without any other option share one Options
// (plain), so that an account costs no memory for each job.
type account struct {
	plain *job.Options
	all   int  // jobs in every status
	open  Used // jobs that have not ended, and their payloads
}

// CheckQuota refuses a quota that is not valid; nil is none.
func CheckQuota(q *fsmpb.Quota) error {
	if q != nil && (q.Account == "" || min(q.MaxJobs, q.MaxBytes) < 0) {
		return job.ErrAccount
	}
	return job.CheckAccount(q.GetAccount())
}

// Table counts what the state keeps of each producer with a quota: jobs, batches with their callbacks, schedules, and
// registrations of workers. It is derived from these. It is not safe for concurrent use.
type Table struct {
	accounts map[string]*account
	Records  int64 // bytes of batches and schedules
	Workers  int64 // bytes of all registrations
}

// New returns an empty table.
func New() Table { return Table{accounts: make(map[string]*account)} }

// account returns the account of that name, and makes it if there is none.
func (u *Table) account(name string) *account {
	a := u.accounts[name]
	if a == nil {
		name = strings.Clone(name)
		a = &account{plain: &job.Options{Account: name}}
		u.accounts[name] = a
	}
	return a
}

// Open returns the jobs of an account that have not ended, and the bytes of their payloads.
func (u *Table) Open(name string) Used {
	if a := u.accounts[name]; a != nil {
		return a.open
	}
	return Used{}
}

// Options returns the options of a new job, or nil if all are zero.
func (u *Table) Options(n *fsmpb.NewJob, cron string) *job.Options {
	o, name := job.NewOptions(n, cron), n.GetQuota().GetAccount()
	if name == "" {
		return o
	}
	a := u.account(name)
	if o == nil {
		return a.plain
	}
	o.Account = a.plain.Account
	return o
}

// Share lets a restored job share the options of its account.
func (u *Table) Share(j *job.Job) {
	if j.Opt == nil || j.Opt.Account == "" {
		return
	}
	o := *j.Opt
	if o.Account = ""; o.Zero() {
		j.Opt = u.account(j.Opt.Account).plain
	}
}

// Count adds a job to its account (n is 1), or takes it out (n is -1).
func (u *Table) Count(j *job.Job, n int) {
	if j.Opt == nil || j.Opt.Account == "" {
		return
	}
	a := u.account(j.Opt.Account)
	a.all += n
	if !j.Status.Ended() {
		a.open.Jobs += int64(n)
		a.open.Bytes += int64(n) * j.ProducedSize()
	}
}

// Drop forgets the account of a job that was removed, if it was the last one.
func (u *Table) Drop(j *job.Job) {
	if j.Opt != nil && j.Opt.Account != "" && u.accounts[j.Opt.Account].all == 0 {
		delete(u.accounts, j.Opt.Account)
	}
}

// String lists what the table counts, for comparisons.
func (u *Table) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%d bytes of records, %d of workers\n", u.Records, u.Workers)
	for _, name := range slices.Sorted(maps.Keys(u.accounts)) {
		fmt.Fprintf(&out, "account %q: %d records, open %+v\n", name, u.accounts[name].all, u.accounts[name].open)
	}
	return out.String()
}
