package bucket

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"osqueue/api"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/units"
	"osqueue/cmd/osqueue/view"
	"osqueue/fsm"
)

// jobOfState returns a job as the API would show it.
func jobOfState(j *fsm.Job) v1.Job {
	shown := j.Change()
	shown.SetPayload(opaque(j.Payload()))
	shown.Exec.Result = opaque(j.Execution().Result)
	var out v1.Job
	lenient := json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if err := json.Unmarshal(api.AppendJob(nil, shown), &out, lenient); err != nil {
		panic(fmt.Sprintf("job %q: %v", j.ID, err)) // AppendJob writes valid JSON
	}
	return out
}

// opaque converts a payload or result to JSON. Older brokers accepted text that is not
// JSON; opaque returns such text as a JSON string.
func opaque(v []byte) []byte {
	if len(v) == 0 || jsontext.Value(v).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) {
		return v
	}
	quoted, _ := jsontext.AppendQuote(nil, v) // what is not UTF-8 is replaced
	return quoted
}

// chosenStatuses returns the statuses of the filter. No status means all.
func chosenStatuses(f *view.Filter) ([]fsm.Status, error) {
	var out []fsm.Status
	for _, name := range f.Status {
		if name == v1.StatusAll {
			continue
		}
		s, ok := fsm.ParseStatus(name)
		if !ok {
			return nil, view.Usagef("--status %q: use %s, or all", name, strings.Join(units.AllStatuses, ", "))
		}
		out = append(out, s)
	}
	return out, nil
}

// isChosen reports whether a job has all that the filter names beside its status.
func isChosen(f *view.Filter, j *fsm.Job) bool {
	o := j.Options()
	after, before := f.Created.After, f.Created.Before
	return (f.Type == "" || j.Type == f.Type) &&
		(f.Group == "" || o.Group == f.Group) &&
		(f.Batch == "" || o.Batch == f.Batch) &&
		(f.Worker == "" || j.Execution().Worker == f.Worker) &&
		!slices.ContainsFunc(f.Tags, func(tag string) bool { return !slices.Contains(o.Tags, tag) }) &&
		(after.Text == "" || j.CreatedAt >= after.At.UnixMilli()) &&
		(before.Text == "" || j.CreatedAt < before.At.UnixMilli())
}

// waitsText names the first of the jobs that are waited for.
func waitsText(ids []string) string {
	const most = 3
	if len(ids) <= most {
		return view.OrDash(strings.Join(ids, " "))
	}
	return fmt.Sprintf("%s and %d others", strings.Join(ids[:most], " "), len(ids)-most)
}
