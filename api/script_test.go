package api

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"osqueue/api/core"
	"osqueue/api/ui"
	"osqueue/cluster"
	"osqueue/cluster/leader"
	"osqueue/cluster/past"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/storage"
)

// A script is a test as data: requests, what the answers must be, and what happens to the node. The files of
// testdata/scripts have the scripts, each under the name of the test that plays it. Their lines:
//
//	== TestName [OPTION…]        begins a script. An option is a field of core.Config, as Limits.ListJobs=2, or
//	                             pair: a follower, to which requests are sent, before a leader
//	                             secured: tokens are asked for, and "admin" is one; tenants: those of twoTenants
//	                             bubble: in simulated time
//	                             ui: requests to /ui go to a dashboard; dashboard: to that of newDash, of many objects
//	# TEXT                       a comment
//	METHOD PATH [BODY] [> …]     sends a request, with the headers in the lines "Name: value" below
//	LIST PATH LIST.FIELD         reads all pages of a list; its body is the field of the items, pages apart by |
//	ALL PATH LIST.FIELD          the same without |
//	> [STATUS] [TAG] [WANT]      about the last answer: its status (200 if absent), the tag of its problem, and
//	                             JSON whose members it has (all of them: only JSON), or a part of its detail
//	> Name: VALUE                a header of it
//	= BODY                       the bytes of its body
//	times N TEXT                 how often TEXT is in its body
//	~ TEXT, !~ TEXT              TEXT is in its body, or is not; … stands for the rest of an object in JSON
//	for NAME in VALUE… … end     plays the lines between once for each value
//
// A request can begin with leader (of a pair), with @NAME (the caller has that token), and with & NAME (it is
// sent in the background, and "wait NAME" gets its answer). An answer that is not compared must be below 300.
//
// $NAME is the text of a variable. In JSON that is wanted, "$NAME" sets a variable that has no text yet, "!TEXT"
// is any other text, "*" any, "<N>" any of N bytes, and … stands for any characters, or the first items of a list. A member that is false, 0 or
// empty can also be absent. «TEXT*N» is TEXT N times, and «TEXT» is read as in a string of Go.
//
// These lines are about the node:
//
//	submit ID [TYPE]             claim ID… (one by one; $ID is the token), or none           finish N
//	fill                         tick DURATION                   fire SCHEDULE               lead
//	flush (to the bucket)        checkpoint (of a past state)    follow [LEADER]             shutdown
//	set PATH=VALUE               settings FIELD=VALUE…           token NAME ROLE [FIELD=VALUE…] ($NAME is its id)
//	written N, entries N (since that line before)                count|until asleep|flushing|awaiting N
//	wait NAME, waiting NAME, leave NAME (the client goes away)   took DURATION               keep NAME (the body)
//	again (sends the last request)                               handover (claims that wait are committed by the node)
//	rebuild (earlier states are being rebuilt)                   damage, repair (the archive, as the leader knows it)
//	heard (the follower knows what is in the bucket)
//	transplant (the state is one of another cluster, in term 900)
//	fail propose|batches|linearize none|not_leader|flush_lag|overloaded|unknown
type script struct {
	file    string
	options []string
	lines   []string
}

var scripts = sync.OnceValue(func() map[string]*script {
	all := make(map[string]*script)
	files, err := filepath.Glob("testdata/scripts/*.http")
	for _, file := range files {
		var text []byte
		if text, err = os.ReadFile(file); err != nil {
			break
		}
		s := new(script)
		for line := range strings.SplitSeq(string(text), "\n") {
			if head, begins := strings.CutPrefix(line, "== "); begins {
				words := strings.Fields(head)
				s = &script{file: file, options: words[1:]}
				if all[words[0]] != nil {
					panic("two scripts are called " + words[0])
				}
				all[words[0]] = s
				continue
			}
			s.lines = append(s.lines, strings.TrimSpace(line))
		}
	}
	if err != nil {
		panic(err)
	}
	return all
})

// player plays a script.
type player struct {
	t       *testing.T
	rigs    map[string]*rig     // "leader" and "follower" of a pair; "" gets the requests
	ui      http.Handler        // of paths under /ui; or nil
	heads   map[string][]string // the header of each token
	vars    map[string]string
	later   map[string]<-chan answer
	leave   map[string]func()
	request func(context.Context) answer // the last request
	sent    string                       // the last request, for messages
	last    answer
	checked bool // the last answer was compared
	begun   time.Time
	took    time.Duration
	writes  int
	entries int
}

// play plays the script with the name of the test.
func play(t *testing.T) {
	t.Helper()
	s, there := scripts()[t.Name()[strings.LastIndexByte(t.Name(), '/')+1:]]
	if !there {
		t.Fatalf("no script is called %s", t.Name())
	}
	run := func(t *testing.T) {
		p := newPlayer(t, s.options)
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("%s: the last request: %s", s.file, p.sent)
			}
		})
		p.play(s.lines)
		p.settle()
	}
	if slices.Contains(s.options, "bubble") {
		synctest.Test(t, run)
		return
	}
	run(t)
}

// Each script has a test that plays it.
func TestEveryScriptIsPlayed(t *testing.T) {
	code, err := os.ReadFile("scripts_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range scripts() {
		if !strings.Contains(string(code), "\nfunc "+name+"(t *testing.T) ") {
			t.Errorf("%s has %s, which no test plays", s.file, name)
		}
	}
}

func newPlayer(t *testing.T, options []string) *player {
	t.Helper()
	p := &player{
		t: t, checked: true, rigs: map[string]*rig{}, heads: map[string][]string{}, vars: map[string]string{},
		later: map[string]<-chan answer{}, leave: map[string]func(){},
	}
	var change []func(*core.Config)
	for _, o := range options {
		if path, value, assigns := strings.Cut(o, "="); assigns {
			change = append(change, func(c *core.Config) { setField(c, path, value) })
		}
	}
	has := func(option string) bool { return slices.Contains(options, option) }
	switch {
	case has("pair"):
		both := newPair
		if has("bubble") {
			both = newNearPair
		}
		pair := both(t, change...)
		p.rigs["leader"], p.rigs["follower"], p.rigs[""] = pair.leader, pair.follower, pair.follower
	case has("dashboard"):
		d := newDash(t, false)
		p.rigs[""], p.ui = d.rig, d.ui
	case has("secured"):
		g := secured(t, core.SecurityOn, nil)
		g.s.Audited = core.NewAuditRing(1 << 20)
		p.rigs[""] = g
		p.give(g, "admin", &fsmpb.Token{Role: uint32(fsm.RoleAdmin)})
	case has("tenants"):
		g := twoTenants(t)
		p.rigs[""] = g.rig
		p.heads = map[string][]string{"admin": g.admin, "a": g.a, "b": g.b, "workA": g.workA, "workB": g.workB}
	default:
		p.rigs[""] = newRig(t, change...)
	}
	if has("ui") {
		p.ui = ui.New(ui.Config{API: p.rigs[""].s})
	}
	p.writes, p.entries = p.rigs[""].node.written(), p.rigs[""].node.entriesSoFar()
	return p
}

// give makes a token that has a name in the script, and a variable of that name with its id.
func (p *player) give(g *rig, name string, token *fsmpb.Token) {
	p.heads[name] = g.give(token)
	p.vars[name] = idOf(p.heads[name])
}

// setField sets a field of a struct, or one in a struct in it, to what a text says.
func setField(of any, path, value string) {
	v := reflect.ValueOf(of).Elem()
	for name := range strings.SplitSeq(path, ".") {
		v = v.FieldByName(name)
	}
	var err error
	var d time.Duration
	var n int64
	switch {
	case v.Kind() == reflect.String:
		v.SetString(value)
	case v.Kind() == reflect.Slice:
		v.Set(reflect.ValueOf(strings.Split(value, ",")))
	case v.Type() == reflect.TypeOf(d):
		d, err = time.ParseDuration(value)
		v.SetInt(int64(d))
	default:
		n, err = strconv.ParseInt(value, 10, 64)
		v.SetInt(n)
	}
	if err != nil {
		panic(err)
	}
}

func (p *player) errorf(format string, args ...any) {
	p.t.Helper()
	p.t.Errorf("%s\n\tanswered %d %s\n\t%s", p.sent, p.last.status, p.last.body, fmt.Sprintf(format, args...))
}

var headerLine = regexp.MustCompile(`^[A-Z][\w-]*:( |$)`)

func (p *player) play(lines []string) {
	p.t.Helper()
	for i := 0; i < len(lines); i++ {
		word, rest, _ := strings.Cut(lines[i], " ")
		if word == "" || word[0] == '#' {
			continue
		}
		if word == "for" {
			n := endOf(lines[i+1:])
			name, values, _ := strings.Cut(p.expand(rest), " in ")
			outer := p.vars
			for value := range strings.FieldsSeq(values) {
				p.vars = maps.Clone(outer)
				p.vars[name] = value
				p.play(lines[i+1 : i+1+n])
			}
			p.vars = outer
			i += 1 + n
			continue
		}
		line := p.expand(lines[i])
		header := http.Header{}
		for ; i+1 < len(lines) && headerLine.MatchString(lines[i+1]); i++ {
			name, value, _ := strings.Cut(lines[i+1], ":")
			if header[name] = append(header[name], p.expand(strings.TrimSpace(value))); value == "" {
				header[name] = nil // a header that requests have otherwise
			}
		}
		p.step(line, header)
	}
}

// endOf returns the index of the end of a loop whose first line is lines[0].
func endOf(lines []string) int {
	depth := 1
	return slices.IndexFunc(lines, func(line string) bool {
		if strings.HasPrefix(line, "for ") {
			depth++
		}
		if line == "end" {
			depth--
		}
		return depth == 0
	})
}

var (
	variableText = regexp.MustCompile(`\$\w+`)
	repeatedText = regexp.MustCompile(`«(.*?)(?:\*(\d+))?»`)
)

// expand puts texts for variables and repetitions.
func (p *player) expand(line string) string {
	line = variableText.ReplaceAllStringFunc(line, func(name string) string {
		if text, bound := p.vars[name[1:]]; bound {
			return text
		}
		return name
	})
	return repeatedText.ReplaceAllStringFunc(line, func(all string) string {
		m := repeatedText.FindStringSubmatch(all)
		n, _ := strconv.Atoi(m[2])
		if m[2] != "" {
			return strings.Repeat(m[1], n)
		}
		text, err := strconv.Unquote(`"` + m[1] + `"`)
		if err != nil {
			p.t.Fatalf("%s: %v", all, err)
		}
		return text
	})
}

func (p *player) step(line string, header http.Header) {
	p.t.Helper()
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case ">":
		p.expect(rest)
		return
	case "=":
		p.checked = true
		if got := string(p.last.body); got != rest {
			p.errorf("want %s", rest)
		}
		return
	case "times":
		number, text, _ := strings.Cut(rest, " ")
		if n := strings.Count(string(p.last.body), text); strconv.Itoa(n) != number {
			p.errorf("there are %d, want %s", n, line)
		}
		return
	case "~", "!~":
		pattern := strings.ReplaceAll(regexp.QuoteMeta(rest), "…", `[^{}]*`)
		if regexp.MustCompile(pattern).Match(p.last.body) != (word == "~") {
			p.errorf("want %s", line)
		}
		return
	}
	p.settle()
	g, later := p.rigs[""], ""
	if other, named := p.rigs[word]; named {
		g = other
		word, rest, _ = strings.Cut(rest, " ")
	}
	if word == "&" {
		later, rest, _ = strings.Cut(rest, " ")
		word, rest, _ = strings.Cut(rest, " ")
	}
	if name, named := strings.CutPrefix(word, "@"); named {
		if p.heads[name] == nil {
			p.t.Fatalf("%s: there is no such token", line)
		}
		header.Set("Authorization", p.heads[name][1])
		word, rest, _ = strings.Cut(rest, " ")
	}
	switch {
	case word == "LIST" || word == "ALL":
		p.sent = line
		path, field, _ := strings.Cut(rest, " ")
		p.list(g, path, field, header)
		if word == "ALL" {
			p.last.body = bytes.ReplaceAll(p.last.body, []byte(" | "), []byte(" "))
		}
	case word == strings.ToUpper(word):
		p.sent = line
		p.send(g, later, word, rest, header)
	case !p.actOnQueue(g, word, strings.Fields(rest)) && !p.actOnNode(g, word, strings.Fields(rest)):
		p.t.Fatalf("what is %q?", line)
	}
}

// settle checks an answer that the script has not looked at.
func (p *player) settle() {
	p.t.Helper()
	if !p.checked && p.last.status >= http.StatusMultipleChoices {
		p.errorf("want a success")
	}
	p.checked = true
}

func (p *player) got(a answer) {
	p.last, p.checked, p.took = a, false, time.Since(p.begun)
}

func (p *player) send(g *rig, later, method, rest string, header http.Header) {
	p.t.Helper()
	rest, want, inline := strings.Cut(rest, " > ")
	path, body, _ := strings.Cut(rest, " ")
	send := func(ctx context.Context) answer {
		r := request(method, path, body).WithContext(ctx)
		for name, values := range header {
			if r.Header.Del(name); values != nil {
				r.Header[name] = values
			}
		}
		if p.ui == nil || !strings.HasPrefix(path, "/ui") {
			return g.send(r)
		}
		if method == http.MethodPost {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		w := httptest.NewRecorder()
		p.ui.ServeHTTP(w, r)
		return answer{w.Code, w.Header(), w.Body.Bytes()}
	}
	p.begun = time.Now()
	if later != "" {
		ctx, leave := context.WithCancel(p.t.Context())
		out := make(chan answer, 1)
		p.later[later], p.leave[later] = out, leave
		go func() { out <- send(ctx) }()
		return
	}
	p.request = send
	p.got(send(p.t.Context()))
	if inline {
		p.expect(want)
	}
}

// list reads the pages of a list.
func (p *player) list(g *rig, path, field string, header http.Header) {
	p.t.Helper()
	name, field, _ := strings.Cut(field, ".")
	var out []string
	for page := path; ; {
		a := g.do("GET", page, "", "Authorization", header.Get("Authorization"))
		body, _ := jsonOf(a.body).(object)
		if p.last = a; a.status != http.StatusOK || len(out) > 100 {
			p.errorf("the list breaks off")
			return
		}
		items, _ := body[name].([]any)
		for _, item := range items {
			out = append(out, fmt.Sprint(item.(object)[field]))
		}
		next, more := body["nextCursor"].(string)
		if !more {
			break
		}
		out = append(out, "|")
		page = path + map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")] + "cursor=" + next
	}
	p.last.body, p.checked = []byte(strings.Join(out, " ")), false
}

var (
	wantedHeader = regexp.MustCompile(`^([A-Z][\w-]*): ?(.*)$`)
	wantedStatus = regexp.MustCompile(`^(\d{3})\b ?([a-z_]*) ?(.*)$`)
)

// expect compares the last answer with what stands behind >.
func (p *player) expect(want string) {
	p.t.Helper()
	if m := wantedHeader.FindStringSubmatch(want); m != nil {
		if err := p.fits(m[2], p.last.header.Get(m[1]), false); err != nil {
			p.errorf("%s: %v", m[1], err)
		}
		return
	}
	status, tag := http.StatusOK, ""
	if m := wantedStatus.FindStringSubmatch(want); m != nil {
		status, _ = strconv.Atoi(m[1])
		tag, want, p.checked = m[2], m[3], false
		if status < 300 && tag == "only" {
			tag, want = "", "only "+want
		}
	}
	if !p.checked && p.last.status != status {
		p.errorf("want %d", status)
		p.t.FailNow()
	}
	p.checked = true
	if tag != "" {
		checkWords(p.t, refused(p.t, p.last, status, tag).Detail)
	}
	value, whole := strings.CutPrefix(want, "only ")
	switch {
	case want == "":
	case value[0] == '{':
		if err := p.fits(jsonOf([]byte(value)), jsonOf(p.last.body), whole); err != nil {
			p.errorf("%v", err)
		}
	default:
		body, _ := jsonOf(p.last.body).(object)
		if detail, _ := body["detail"].(string); !strings.Contains(detail, want) {
			p.errorf("want a detail with %q", want)
		}
	}
}

// fits returns how a value differs from what is wanted. whole: an object has no other members.
func (p *player) fits(want, got any, whole bool) error {
	switch want := want.(type) {
	case object:
		o, _ := got.(object)
		names := maps.Clone(want)
		if whole {
			maps.Copy(names, o)
		}
		for name := range names {
			if err := p.fits(want[name], o[name], whole); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return nil
	case []any:
		list, _ := got.([]any)
		if len(want) > 0 && want[0] == "…" && len(list) >= len(want) {
			want, list = want[1:], list[len(list)-len(want)+1:]
		}
		if len(list) != len(want) {
			return fmt.Errorf("there are %d items, want %d", len(list), len(want))
		}
		for i := range want {
			if err := p.fits(want[i], list[i], whole); err != nil {
				return fmt.Errorf("%d: %w", i, err)
			}
		}
		return nil
	case string:
		return p.fitsText(want, got)
	}
	if got != want && (!isZero(got) || !isZero(want)) {
		return fmt.Errorf("is %v, want %v", got, want)
	}
	return nil
}

func isZero(v any) bool {
	switch v := v.(type) {
	case object:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return v == nil || v == false || v == 0.0 || v == ""
}

var textOfLength = regexp.MustCompile(`^<(\d+)>$`)

func (p *player) fitsText(want string, got any) error {
	text := ""
	switch got := got.(type) {
	case string:
		text = got
	case float64:
		text = strconv.FormatFloat(got, 'f', -1, 64)
	}
	want, other := strings.CutPrefix(want, "!")
	good := text == want
	switch length := textOfLength.FindStringSubmatch(want); {
	case want == "*":
		good = text != ""
	case length != nil:
		good = strconv.Itoa(len(text)) == length[1]
	case strings.HasPrefix(want, "$"):
		p.vars[want[1:]] = text
		good = text != ""
	case strings.Contains(want, "…"):
		pattern := strings.ReplaceAll(regexp.QuoteMeta(want), "…", ".*")
		good = regexp.MustCompile("(?s)^" + pattern + "$").MatchString(text)
	}
	if good == other {
		return fmt.Errorf("is %v, want %q: %v", got, want, !other)
	}
	return nil
}

// actOnQueue does what a line says that is about jobs and time.
func (p *player) actOnQueue(g *rig, word string, args []string) bool {
	p.t.Helper()
	number := func() int {
		n, err := strconv.Atoi(args[len(args)-1])
		if err != nil {
			p.t.Fatal(err)
		}
		return n
	}
	switch word {
	case "submit":
		g.submit(args[0], strings.Join(args[1:], " "))
	case "claim":
		for _, id := range args {
			j := g.claim1()
			if j.JobID != id && (id != "none" || j.JobID != "") {
				p.t.Fatalf("claimed %q, want %s", j.JobID, id)
			}
			p.vars[id] = strconv.FormatUint(j.Token, 10)
		}
	case "finish":
		g.finish(number())
	case "fill":
		g.fill()
	case "fire":
		g.fire(args[0])
	case "tick":
		d, err := time.ParseDuration(args[0])
		if err != nil {
			p.t.Fatal(err)
		}
		g.node.tick(d)
	case "written":
		n := g.node.written()
		if len(args) > 0 && n-p.writes != number() {
			p.errorf("%d mutations were written, want %s", n-p.writes, args[0])
		}
		p.writes = n
	case "entries":
		n := g.node.entriesSoFar()
		if len(args) > 0 && n-p.entries != number() {
			p.errorf("%d entries were written, want %s", n-p.entries, args[0])
		}
		p.entries = n
	default:
		return false
	}
	return true
}

// actOnNode does what a line says that is about the node, its clients and requests that wait.
func (p *player) actOnNode(g *rig, word string, args []string) bool {
	p.t.Helper()
	first := strings.Join(args[:min(1, len(args))], "")
	switch word {
	case "flush":
		g.node.flush()
	case "checkpoint":
		g.flush()
	case "lead":
		g.node.rescan(func(f *fakeNode) { f.lead, f.leader = true, "10.0.0.1:8080" })
	case "follow":
		g.node.rescan(func(f *fakeNode) { f.lead, f.leader = false, first })
	case "shutdown":
		g.end()
	case "heard":
		g.node.rescan(func(f *fakeNode) { f.flushed = p.rigs["leader"].node.flushed })
	case "damage":
		g.node.rescan(func(f *fakeNode) { f.damaged = &leader.ArchiveError{Key: "log/a.seg", Cause: storage.ErrNotFound} })
	case "repair":
		g.node.rescan(func(f *fakeNode) { f.damaged = nil })
	case "rebuild":
		g.s.Config.Past = fakePast{past.ErrBusy}
	case "transplant":
		g.node.rescan(func(f *fakeNode) { f.m.Transplant("other", "", 3, 900) })
	case "handover":
		g.node.set(func(f *fakeNode) { f.handOver = true })
	case "fail":
		err, known := map[string]error{
			"none": nil, "not_leader": cluster.ErrNotLeader, "flush_lag": cluster.ErrFlushLag, "overloaded": cluster.ErrOverloaded, "unknown": cluster.ErrUnknown,
		}[args[1]]
		if !known {
			p.t.Fatalf("there is no error %s", args[1])
		}
		g.node.set(func(f *fakeNode) {
			*map[string]*error{"propose": &f.proposeErr, "batches": &f.proposeErr, "linearize": &f.linearErr}[first] = err
			f.reportsPass = first == "batches" // single mutations pass
		})
	case "set":
		path, value, _ := strings.Cut(first, "=")
		setField(&g.s.Config, path, value)
	case "settings":
		settings := fsmpb.Copy(g.node.View().Meta().Settings)
		for _, arg := range args {
			path, value, _ := strings.Cut(arg, "=")
			setField(settings, path, value)
		}
		g.useSettings(settings)
	case "token":
		role, known := fsm.ParseRole(args[1])
		token := &fsmpb.Token{Role: uint32(role)}
		for _, arg := range args[2:] {
			path, value, _ := strings.Cut(arg, "=")
			setField(token, path, value)
		}
		if p.give(g, first, token); !known {
			p.t.Fatalf("there is no role %s", args[1])
		}
	default:
		return p.waits(g, word, args)
	}
	return true
}

// waits does what a line says that is about requests that wait.
func (p *player) waits(g *rig, word string, args []string) bool {
	p.t.Helper()
	switch word {
	case "again":
		p.begun = time.Now()
		p.got(p.request(p.t.Context()))
	case "keep":
		p.vars[args[0]] = string(p.last.body)
	case "wait":
		p.got(<-p.later[args[0]])
	case "waiting":
		select {
		case a := <-p.later[args[0]]:
			p.t.Errorf("%s is answered %d %s", args[0], a.status, a.body)
		case <-time.After(10 * time.Millisecond):
		}
	case "leave":
		p.leave[args[0]]()
	case "took":
		if got := p.took.String(); got != args[0] {
			p.errorf("it took %s, want %s", got, args[0])
		}
	case "count", "until":
		n, _ := strconv.Atoi(args[1])
		reached := map[string]func(int) func() bool{"asleep": g.asleep, "flushing": g.flushing, "awaiting": g.awaiting}[args[0]](n)
		if word == "until" {
			eventually(p.t, strings.Join(args, " "), reached)
		} else if !reached() {
			p.t.Errorf("not %s", strings.Join(args, " "))
		}
	default:
		return false
	}
	return true
}
