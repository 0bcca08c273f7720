package core

import (
	"net/http"

	v1 "osqueue/client/api/v1"
	"osqueue/client/api/v1/frame"
	"osqueue/internal/auth"
)

// rights says which right each route needs; one of several is enough. New panics if a route
// is not here, so a route without a declared right fails every test.
var rights = map[string]auth.Right{
	onGet(v1.PathStatus):          auth.Public, // without a principal it shows what discovery needs
	onGet(v1.PathHealthz):         auth.Public,
	onGet(v1.PathReadyz):          auth.Public,
	onGet(v1.PathOpenAPI):         auth.Public,
	onGet(v1.PathMetrics):         auth.Read,
	onGet(v1.PathState):           auth.Admin, // with the hashes of the tokens
	onGet(v1.PathHistory):         auth.Read,
	onGet(frame.Path):             auth.Enqueue | auth.Work | auth.Read, // each request in it needs its own
	onGet(v1.PathThrottle):        auth.Read,
	onGet(v1.PathPast):            auth.Read,
	onGet(v1.PathStats):           auth.Read,
	onGet(PathLSNWait):            auth.Follow | auth.Read,
	onGet(v1.PathEvents):          auth.Read,
	onGet(v1.PathJobs):            auth.Read,
	onGet(v1.PathCount):           auth.Read,
	onGet(ByID(v1.PathJobs)):      auth.Follow | auth.Read,
	onGet(v1.PathBatches):         auth.Read,
	onGet(ByID(v1.PathBatches)):   auth.Follow | auth.Read,
	onGet(v1.PathQueues):          auth.Read,
	onGet(typeOf()):               auth.Read,
	onGet(v1.PathCrons):           auth.Read,
	onGet(ByName(v1.PathCrons)):   auth.Read,
	onGet(v1.PathWorkers):         auth.Read,
	onGet(ByName(v1.PathWorkers)): auth.Read,

	onGet(ByID(v1.PathJobs) + "/" + v1.ActionGraph): auth.Read,
	onGet(ByID(v1.PathJobs) + "/" + v1.ActionLogs):  auth.Read,

	onPost(v1.PathJobs):      auth.Enqueue,
	onPost(v1.PathJobsBatch): auth.Enqueue,
	onPost(v1.PathBatches):   auth.Enqueue,

	onPost(v1.PathClaim):                                 auth.Work,
	onPost(v1.PathComplete):                              auth.Work,
	onPost(v1.PathHeartbeat):                             auth.Work,
	onPost(v1.PathFail):                                  auth.Work,
	onPost(v1.PathRelease):                               auth.Work,
	onPost(v1.PathLogs):                                  auth.Work,
	onPost(v1.PathWorkers):                               auth.Work,
	onPost(ByID(v1.PathJobs) + "/" + v1.ActionComplete):  auth.Work,
	onPost(ByID(v1.PathJobs) + "/" + v1.ActionHeartbeat): auth.Work,
	onPost(ByID(v1.PathJobs) + "/" + v1.ActionFail):      auth.Work,
	onPost(ByID(v1.PathJobs) + "/" + v1.ActionRelease):   auth.Work,
	onPost(ByID(v1.PathJobs) + "/" + v1.ActionProgress):  auth.Work,

	// Not for workers: it completes jobs of other workers as well.
	onPost(ByID(v1.PathJobs) + "/" + v1.ActionForceComplete): auth.Manage,

	onDelete(ByName(v1.PathWorkers)):                        auth.Manage,
	onPost(ByName(v1.PathWorkers) + "/" + v1.ActionQuiet):   auth.Manage,
	onPost(ByName(v1.PathWorkers) + "/" + v1.ActionUnquiet): auth.Manage,
	onPost(ByID(v1.PathJobs) + "/" + v1.ActionCancel):       auth.Manage,
	onPost(ByID(v1.PathJobs) + "/" + v1.ActionRetry):        auth.Manage,
	onDelete(ByID(v1.PathJobs)):                             auth.Manage,
	onPost(v1.PathCancel):                                   auth.Manage,
	onPost(v1.PathRetry):                                    auth.Manage,
	onPost(v1.PathDelete):                                   auth.Manage,
	http.MethodPatch + " " + typeOf():                       auth.Manage,
	onDelete(typeOf()):                                      auth.Manage,
	onPost(typeOf() + "/" + v1.ActionPause):                 auth.Manage,
	onPost(typeOf() + "/" + v1.ActionResume):                auth.Manage,
	http.MethodPut + " " + ByName(v1.PathCrons):             auth.Manage,
	onDelete(ByName(v1.PathCrons)):                          auth.Manage,
	onPost(ByName(v1.PathCrons) + "/" + v1.ActionPause):     auth.Manage,
	onPost(ByName(v1.PathCrons) + "/" + v1.ActionResume):    auth.Manage,
	onPost(ByName(v1.PathCrons) + "/" + v1.ActionTrigger):   auth.Manage,

	// The URL of a hook may be a secret itself.
	onGet(v1.PathHooks):                                     auth.Hooks,
	onGet(ByName(v1.PathHooks)):                             auth.Hooks,
	onGet(ByName(v1.PathHooks) + "/" + v1.ActionDeliveries): auth.Hooks,
	http.MethodPut + " " + ByName(v1.PathHooks):             auth.Hooks,
	onDelete(ByName(v1.PathHooks)):                          auth.Hooks,
	onPost(ByName(v1.PathHooks) + "/" + v1.ActionTest):      auth.Hooks,

	onGet(v1.PathSelf): AnyRight,

	onGet(v1.PathAudit): auth.Admin,

	onGet(v1.PathTokens):                                auth.Admin,
	onPost(v1.PathTokens):                               auth.Admin,
	onDelete(ByID(v1.PathTokens)):                       auth.Admin,
	onPost(ByID(v1.PathTokens) + "/" + v1.ActionRotate): auth.Admin,
}

func onGet(path string) string    { return http.MethodGet + " " + path }
func onPost(path string) string   { return http.MethodPost + " " + path }
func onDelete(path string) string { return http.MethodDelete + " " + path }
func ByID(path string) string     { return path + "/{id}" }
func ByName(path string) string   { return path + "/{name}" }
func typeOf() string              { return v1.PathQueues + "/{type}" }

// RightOf returns the right that a route needs.
func RightOf(rt *Route) auth.Right {
	right := rights[rt.Method+" "+rt.Path]
	if right == 0 {
		panic("api: rights.go declares no right for " + rt.Method + " " + rt.Path)
	}
	return right
}
