package fsm

import "strings"

func byStatusSeq(a, b *Job) bool {
	if a.Status != b.Status {
		return a.Status < b.Status
	}
	return a.Seq < b.Seq
}

// byClaimOrder orders jobs by priority, highest first, then first in, first out.
func byClaimOrder(a, b *Job) bool {
	if a.Priority != b.Priority {
		return a.Priority > b.Priority
	}
	return a.Seq < b.Seq
}

// byHolder orders running jobs, which all have an execution.
func byHolder(a, b *Job) bool {
	if c := strings.Compare(a.Exec.Worker, b.Exec.Worker); c != 0 {
		return c < 0
	}
	return a.Seq < b.Seq
}

func byType(a, b *Job) bool {
	if c := strings.Compare(a.Type, b.Type); c != 0 {
		return c < 0
	}
	return byStatusSeq(a, b)
}

func byEnd(a, b *Job) bool {
	if x, y := a.Execution().FinishedAt, b.Execution().FinishedAt; x != y {
		return x < y
	}
	return a.Seq < b.Seq
}

// label is a tag or a batch, under which jobs can be listed.
type label struct {
	batch bool
	name  string
}

func tagLabel(tag string) label { return label{name: tag} }

func batchLabel(id string) label { return label{batch: true, name: id} }

// tagged is the place of a job under one of its labels.
type tagged struct {
	label label
	job   *Job
}

func byLabel(a, b tagged) bool {
	if a.label.batch != b.label.batch {
		return b.label.batch
	}
	if c := strings.Compare(a.label.name, b.label.name); c != 0 {
		return c < 0
	}
	return byStatusSeq(a.job, b.job)
}
