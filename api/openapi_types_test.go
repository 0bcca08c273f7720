package api

import (
	stdjson "encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	v1 "osqueue/client/api/v1"
)

// wireTypes are the bodies of the API, by the name of their schema.
var wireTypes = map[string]reflect.Type{
	"NewJob": reflect.TypeFor[v1.NewJob](), "Enqueued": reflect.TypeFor[v1.Enqueued](),
	"Batch": reflect.TypeFor[v1.Batch](), "BatchEnqueued": reflect.TypeFor[v1.BatchEnqueued](),
	"Job": reflect.TypeFor[v1.Job](), "JobList": reflect.TypeFor[v1.JobList](), "JobCount": reflect.TypeFor[v1.JobCount](),
	"Claim": reflect.TypeFor[v1.Claim](), "Claimed": reflect.TypeFor[v1.Claimed](),
	"ClaimedJob": reflect.TypeFor[v1.ClaimedJob](),
	"Heartbeat":  reflect.TypeFor[v1.Heartbeat](), "Complete": reflect.TypeFor[v1.Complete](),
	"NextClaim":     reflect.TypeFor[v1.NextClaim](),
	"Graph":         reflect.TypeFor[v1.Graph](),
	"GraphJob":      reflect.TypeFor[v1.GraphJob](),
	"GraphBatch":    reflect.TypeFor[v1.GraphBatch](),
	"GraphEdge":     reflect.TypeFor[v1.GraphEdge](),
	"ProgressPoint": reflect.TypeFor[v1.ProgressPoint](), "JobAction": reflect.TypeFor[v1.JobAction](),
	"JobLogs":       reflect.TypeFor[v1.JobLogs](),
	"LogChunk":      reflect.TypeFor[v1.LogChunk](),
	"SendLogs":      reflect.TypeFor[v1.SendLogs](),
	"SentLog":       reflect.TypeFor[v1.SentLog](),
	"LogsWanted":    reflect.TypeFor[v1.LogsWanted](),
	"LogWanted":     reflect.TypeFor[v1.LogWanted](),
	"NewPause":      reflect.TypeFor[v1.NewPause](),
	"Pause":         reflect.TypeFor[v1.Pause](),
	"ForceComplete": reflect.TypeFor[v1.ForceComplete](),
	"Fail":          reflect.TypeFor[v1.Fail](), "Release": reflect.TypeFor[v1.Release](),
	"Reported": reflect.TypeFor[v1.Reported](), "Lease": reflect.TypeFor[v1.Lease](),
	"HeartbeatBatch": reflect.TypeFor[v1.HeartbeatBatch](), "CompleteLease": reflect.TypeFor[v1.CompleteLease](),
	"CompleteBatch": reflect.TypeFor[v1.CompleteBatch](), "ReportedBatch": reflect.TypeFor[v1.ReportedBatch](),
	"ReportedItem": reflect.TypeFor[v1.ReportedItem](), "WorkerInfo": reflect.TypeFor[v1.WorkerInfo](),
	"WorkerAnswer": reflect.TypeFor[v1.WorkerAnswer](), "Worker": reflect.TypeFor[v1.Worker](),
	"WorkerList": reflect.TypeFor[v1.WorkerList](), "Stats": reflect.TypeFor[v1.Stats](),
	"TypeStats": reflect.TypeFor[v1.TypeStats](), "Status": reflect.TypeFor[v1.Status](),
	"Fence": reflect.TypeFor[v1.Fence](), "Peer": reflect.TypeFor[v1.Peer](),
	"TaskCounts": reflect.TypeFor[v1.TaskCounts](), "Health": reflect.TypeFor[v1.Health](),
	"ThrottleStats": reflect.TypeFor[v1.ThrottleStats](), "NoThrottle": reflect.TypeFor[v1.NoThrottle](),
	"Problem": reflect.TypeFor[v1.Problem](), "Backoff": reflect.TypeFor[v1.Backoff](),
	"Progress": reflect.TypeFor[v1.Progress](), "Attempt": reflect.TypeFor[v1.Attempt](),
	"NewBatch": reflect.TypeFor[v1.NewBatch](), "BatchCreated": reflect.TypeFor[v1.BatchCreated](),
	"BatchInfo": reflect.TypeFor[v1.BatchInfo](), "BatchList": reflect.TypeFor[v1.BatchList](),
	"FailBatch": reflect.TypeFor[v1.FailBatch](), "FailLease": reflect.TypeFor[v1.FailLease](),
	"ReleaseBatch": reflect.TypeFor[v1.ReleaseBatch](), "ChangeJobs": reflect.TypeFor[v1.ChangeJobs](),
	"Filter": reflect.TypeFor[v1.Filter](), "Changed": reflect.TypeFor[v1.Changed](),
	"Queue": reflect.TypeFor[v1.Queue](), "QueueSettings": reflect.TypeFor[v1.QueueSettings](),
	"QueueList": reflect.TypeFor[v1.QueueList](), "Done": reflect.TypeFor[v1.Done](),
	"NewCron": reflect.TypeFor[v1.NewCron](), "Cron": reflect.TypeFor[v1.Cron](),
	"CronList": reflect.TypeFor[v1.CronList](), "CronPut": reflect.TypeFor[v1.CronPut](),
	"Event": reflect.TypeFor[v1.Event](), "LSNReached": reflect.TypeFor[v1.LSNReached](),
	"Document": reflect.TypeFor[v1.Document](), "Bucket": reflect.TypeFor[v1.Bucket](),
	"Snapshots": reflect.TypeFor[v1.Snapshots](), "SnapshotPoint": reflect.TypeFor[v1.SnapshotPoint](),
	"NewToken": reflect.TypeFor[v1.NewToken](), "RotateToken": reflect.TypeFor[v1.RotateToken](),
	"Self": reflect.TypeFor[v1.Self](), "TokenCreated": reflect.TypeFor[v1.TokenCreated](), "AccessToken": reflect.TypeFor[v1.AccessToken](), "TokenList": reflect.TypeFor[v1.TokenList](),
	"Inbox": reflect.TypeFor[v1.Inbox](), "Carried": reflect.TypeFor[v1.Carried](),
	"Past": reflect.TypeFor[v1.Past](), "PastSpan": reflect.TypeFor[v1.PastSpan](),
	"NewHook": reflect.TypeFor[v1.NewHook](), "HookPut": reflect.TypeFor[v1.HookPut](), "Hook": reflect.TypeFor[v1.Hook](), "Alert": reflect.TypeFor[v1.Alert](), "HookList": reflect.TypeFor[v1.HookList](), "HookTested": reflect.TypeFor[v1.HookTested](), "HookDeliveries": reflect.TypeFor[v1.HookDeliveries](), "HookAttempt": reflect.TypeFor[v1.HookAttempt](), "HookEvent": reflect.TypeFor[v1.HookEvent](), "HookEventData": reflect.TypeFor[v1.HookEventData](),
	"AuditPage": reflect.TypeFor[v1.AuditPage](), "AuditEntry": reflect.TypeFor[v1.AuditEntry](),
	"History": reflect.TypeFor[v1.History](), "HistoryMinute": reflect.TypeFor[v1.HistoryMinute](),
}

// declared reads the source of package v1: its structs, and its constants whose
// names begin with Tag.
func declared(t *testing.T) (structs, tags []string) {
	t.Helper()
	inspectV1(t, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.TypeSpec:
			structs = append(structs, n.Name.Name)
		case *ast.ValueSpec:
			if literal, isText := valueOf(n); isText && strings.HasPrefix(n.Names[0].Name, "Tag") {
				tags = append(tags, literal)
			}
		}
		return true
	})
	return structs, tags
}

// inspectV1 walks the source of package v1.
func inspectV1(t *testing.T, fn func(ast.Node) bool) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "client", "api", "v1", "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no source of package v1: %v", err)
	}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, fn)
	}
}

func valueOf(n *ast.ValueSpec) (string, bool) {
	if len(n.Values) != 1 {
		return "", false
	}
	lit, isLit := n.Values[0].(*ast.BasicLit)
	if !isLit || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil
}

func TestDocumentHasTheTypes(t *testing.T) {
	d := readDocument(t)
	structs, tags := declared(t)
	if len(structs) != len(wireTypes) || len(tags) < 10 {
		t.Errorf("package v1 declares %d types, of which %d are held against the document; %d tags", len(structs), len(wireTypes), len(tags))
	}
	for _, name := range structs {
		if wireTypes[name] == nil {
			t.Errorf("the type %s is held against nothing", name)
		}
	}
	for name, typ := range wireTypes {
		d.checkType(t, name, typ)
	}
	for _, tag := range tags {
		if tag != v1.TagNotDue && !strings.Contains(d.text, "`"+tag+"`") { // that one stays inside
			t.Errorf("the tag %s is not described", tag)
		}
	}
}

// wireMember is a field of a wire type.
type wireMember struct {
	typ      reflect.Type
	optional bool
}

func wireMembers(t reflect.Type) map[string]wireMember {
	out := map[string]wireMember{}
	for i := range t.NumField() {
		field := t.Field(i)
		if field.Anonymous {
			maps.Copy(out, wireMembers(field.Type))
			continue
		}
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		out[name] = wireMember{typ: field.Type, optional: options == "omitzero"}
	}
	return out
}

// checkType checks that a schema and a type have the same fields, and that the schema requires
// those that are always present.
func (d *document) checkType(t *testing.T, name string, typ reflect.Type) {
	t.Helper()
	s, ok := d.Components.Schemas[name]
	if !ok {
		t.Errorf("there is no schema %s", name)
		return
	}
	properties, required := maps.Clone(s.Properties), slices.Clone(s.Required)
	for _, part := range s.AllOf {
		_, base := d.schemaOf(part)
		maps.Copy(properties, base.Properties)
		required = append(required, base.Required...)
	}
	for _, name := range required {
		if _, there := properties[name]; !there {
			t.Errorf("%s.%s is required and not described", typ, name)
		}
	}
	members := wireMembers(typ)
	for member, m := range members {
		p, there := properties[member]
		if !there {
			t.Errorf("%s.%s is not described", name, member)
			continue
		}
		if slices.Contains(required, member) == m.optional {
			t.Errorf("%s.%s: required or not?", name, member)
		}
		if want, got := d.kindOf(m.typ), d.nameOf(p); want != got {
			t.Errorf("%s.%s is %s in the code and %s in the document", name, member, want, got)
		}
	}
	for member := range properties {
		if _, there := members[member]; !there {
			t.Errorf("%s.%s does not exist", name, member)
		}
	}
}

// kindOf returns the JSON type of a Go type.
func (d *document) kindOf(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[stdjson.RawMessage]():
		return "anything"
	case t.Kind() == reflect.Pointer:
		return d.kindOf(t.Elem())
	case t.Kind() == reflect.Slice:
		return "list of " + d.kindOf(t.Elem())
	case t.Kind() == reflect.Map:
		return "map of " + d.kindOf(t.Elem())
	case t.Kind() == reflect.Struct:
		return t.Name()
	case t.Kind() == reflect.String:
		return "string"
	case t.Kind() == reflect.Bool:
		return "boolean"
	case t.Kind() == reflect.Float64:
		return "number"
	}
	return "integer"
}

// nameOf says the same of a schema.
func (d *document) nameOf(s schema) string {
	name, s := d.schemaOf(s)
	kind := strings.Join(s.Type, "|")
	switch {
	case len(s.AnyOf) > 0: // it, or null
		return d.nameOf(s.AnyOf[0])
	case kind == "array":
		return "list of " + d.nameOf(*s.Items)
	case kind == "object" && s.Additional != nil:
		return "map of " + d.nameOf(*s.Additional)
	case kind == "object":
		return name
	case kind == "":
		return "anything"
	}
	return kind
}

// The values of an enumerated field are the constants of package v1.
func TestDocumentHasTheWords(t *testing.T) {
	d := readDocument(t)
	s := d.Components.Schemas
	words := constants(t)
	for prefix, enum := range map[string][]string{
		"Status":      s["JobStatus"].Enum,
		"Backoff":     s["Backoff"].Properties["kind"].Enum,
		"Unique":      s["NewJob"].Properties["uniqueScope"].Enum,
		"After":       s["NewJob"].Properties["afterFailure"].Enum,
		"Callback":    s["NewBatch"].Properties["callbackOn"].Enum,
		"Overlap":     s["NewCron"].Properties["overlap"].Enum,
		"Missed":      s["NewCron"].Properties["missed"].Enum,
		"Event":       s["Event"].Properties["kind"].Enum,
		"State":       s["Status"].Properties["state"].Enum,
		"Committed":   s["Problem"].Properties["committed"].Enum,
		"Consistency": d.Components.Parameters["Consistency"].Schema.Enum,
	} {
		var want []string
		for name, word := range words {
			rest, found := strings.CutPrefix(name, prefix)
			if found && rest != "" && rest[0] >= 'A' && rest[0] <= 'Z' && name != "StatusAll" {
				want = append(want, word)
			}
		}
		got := slices.Clone(enum)
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v in the document, %v in the code", prefix, got, want)
		}
	}
	// Items of answers have codes of the machine, and none that it does not have.
	for _, word := range s["ReportedItem"].Properties["status"].Enum {
		if !slices.Contains(slices.Collect(maps.Values(words)), word) {
			t.Errorf("%s is no word of an item", word)
		}
	}
}

// constants returns the string constants of package v1, by name.
func constants(t *testing.T) map[string]string {
	t.Helper()
	out := make(map[string]string)
	inspectV1(t, func(n ast.Node) bool {
		if spec, isValue := n.(*ast.ValueSpec); isValue {
			if literal, isText := valueOf(spec); isText {
				out[spec.Names[0].Name] = literal
			}
		}
		return true
	})
	return out
}
