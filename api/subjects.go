package api

import "slices"

// The operations, by subject.
type (
	// jobs adds, shows and changes jobs and batches.
	jobs struct{ *Core }
	// work lets workers claim jobs and report on them.
	work struct{ *Core }
	// queues is about types and schedules.
	queues struct{ *Core }
	// admin is about tokens, hooks, the audit log and the document.
	admin struct{ *Core }
	// node is about one node.
	node struct{ *Core }
)

// operations returns the routes of all subjects, the busy ones first.
func (s *Core) operations() []route {
	jobs, work, queues, admin, node := &jobs{s}, &work{s}, &queues{s}, &admin{s}, &node{s}
	return slices.Concat(
		work.claimRoutes(), work.reportRoutes(), jobs.enqueueRoutes(), work.reportBatchRoutes(), jobs.jobRoutes(), work.logRoutes(),
		jobs.changeRoutes(), jobs.countRoutes(), work.workerRoutes(), jobs.batchRoutes(), queues.cronRoutes(),
		queues.queueRoutes(), admin.stateRoutes(), queues.historyRoutes(), node.pastRoutes(), node.lsnRoutes(), node.nodeRoutes(),
		admin.tokenRoutes(), admin.hookRoutes(), admin.selfRoutes(), admin.auditRoutes(),
	)
}
