package artefacts

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"osqueue/fsm/fsmpb"
)

func reservation(id string, until int64) *Artefact {
	return Reservation(&fsmpb.ReserveArtefact{Id: id, Size: 7, Sum: make([]byte, 32), UntilMs: until, Quota: &fsmpb.Quota{Account: "acc"}}, 10)
}

// table is a table with a record of its changes: + and - with the ids.
func table() (*Table, *[]string) {
	var log []string
	t := New(func(now, old *Artefact) {
		switch {
		case old == nil:
			log = append(log, "+"+now.Id)
		case now == nil:
			log = append(log, "-"+old.Id)
		default:
			log = append(log, "*"+now.Id)
		}
	})
	return &t, &log
}

func names(list []*Artefact) (out []string) {
	for _, a := range list {
		out = append(out, a.Name+"="+a.Id)
	}
	return out
}

func TestLifeOfAnArtefact(t *testing.T) {
	x, log := table()
	for _, id := range []string{"a", "b", "c", "d"} {
		x.Reserve(reservation(id, 100))
	}
	x.Reserve(reservation("e", 200))
	x.Attach("b", "job", "two", 20)
	x.Attach("a", "job", "one", 21)
	x.Attach("c", "job2", "one", 22)
	if got := names(x.ArtefactsOf("job")); !slices.Equal(got, []string{"one=a", "two=b"}) {
		t.Fatal(got)
	}
	if got := names(x.ArtefactsOf("jo")); got != nil {
		t.Fatal("of another job:", got)
	}
	x.Attach("d", "job", "one", 30) // in place of a
	if a := x.Artefact("a"); a.ReleasedMs != 30 || a.JobId != "job" {
		t.Fatal(a)
	}
	if got := x.ArtefactOf("job", "one"); got.Id != "d" || got.Size != 7 || got.Account != "acc" || got.CreatedMs != 10 {
		t.Fatal(got)
	}
	frozen := x.Freeze()
	x.ReleaseOf("job", 40)
	if x.ArtefactsOf("job") != nil || len(x.ArtefactsOf("job2")) != 1 {
		t.Fatal("released:", x.ArtefactsOf("job"), x.ArtefactsOf("job2"))
	}
	if got := names(frozen.ArtefactsOf("job")); !slices.Equal(got, []string{"one=d", "two=b"}) {
		t.Fatal("the frozen state has", got)
	}
	if at, ok := x.NextEnd(); !ok || at != 200 {
		t.Fatal(at, ok)
	}
	x.Expire(199)
	if !Reserved(x.Artefact("e")) {
		t.Fatal("it ends too early")
	}
	x.Expire(200)
	if a := x.Artefact("e"); Reserved(a) || a.ReleasedMs != 200 || a.JobId != "" {
		t.Fatal(a)
	}
	var order []string
	x.ReleasedArtefacts(func(a *Artefact) bool { order = append(order, a.Id); return true })
	if !slices.Equal(order, []string{"a", "b", "d", "e"}) {
		t.Fatal(order)
	}
	if n := x.Drop([]string{"a", "c", "nope", "e", "a"}); n != 2 || x.Artefact("a") != nil || x.Artefact("c") == nil || x.ArtefactCount() != 3 {
		t.Fatal(n, x.ArtefactCount())
	}
	if got := strings.Join(*log, " "); got != "+a +b +c +d +e *b *a *c *a *d *d *b *e -a -e" {
		t.Fatal(got)
	}
}

func TestKeyHasNoTenant(t *testing.T) {
	for id, want := range map[string]string{"x": "artefact/x", "acme\x00x": "artefact/x"} {
		if got := Key(&Artefact{Id: id}); got != want {
			t.Errorf("%q: %q", id, got)
		}
	}
}

func TestStoredArtefacts(t *testing.T) {
	good := &Artefact{Id: "a", Size: 1, Sum: make([]byte, 32), JobId: "j", Name: "n"}
	x, _ := table()
	if err := x.Add(good, true); err != nil || x.ArtefactOf("j", "n") == nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(*Artefact){
		"twice":                  func(a *Artefact) { a.Id, a.Name = "a", "other" },
		"two of a name":          func(*Artefact) {},
		"no id":                  func(a *Artefact) { a.Id = "" },
		"a negative size":        func(a *Artefact) { a.Name, a.Size = "m", -1 },
		"too large":              func(a *Artefact) { a.Name, a.Size = "m", SizeMax+1 },
		"a short sum":            func(a *Artefact) { a.Name, a.Sum = "m", a.Sum[1:] },
		"a job without a name":   func(a *Artefact) { a.Name = "" },
		"a name without a job":   func(a *Artefact) { a.JobId = "" },
		"a slash in the name":    func(a *Artefact) { a.Name = "a/b" },
		"a negative time":        func(a *Artefact) { a.Name, a.ReleasedMs = "m", -1 },
		"a name that is no text": func(a *Artefact) { a.Name = "\xff" },
	} {
		a := proto.CloneOf(good)
		a.Id = "b"
		if change(a); x.Add(a, true) == nil {
			t.Errorf("%s is accepted", what)
		}
	}
	lost := proto.CloneOf(good)
	lost.Id, lost.Name = "c", "m"
	if x.Add(lost, false) == nil {
		t.Error("an artefact of a job that does not exist is accepted")
	}
	released := proto.CloneOf(good)
	released.Id, released.ReleasedMs = "b", 5
	if err := x.Add(released, false); err != nil { // it has left its place
		t.Error(err)
	}
}

func TestCheckNamed(t *testing.T) {
	one := func(name, id string) *fsmpb.NamedArtefact { return &fsmpb.NamedArtefact{Name: name, Id: id} }
	var many []*fsmpb.NamedArtefact
	for i := range PerJob + 1 {
		many = append(many, one(string(rune('a'+i)), "x"))
	}
	for _, c := range []struct {
		list  []*fsmpb.NamedArtefact
		valid bool
	}{
		{nil, true},
		{many[:PerJob], true},
		{many, false},
		{[]*fsmpb.NamedArtefact{one("b", "x"), one("a", "y")}, false},
		{[]*fsmpb.NamedArtefact{one("a", "x"), one("a", "y")}, false},
		{[]*fsmpb.NamedArtefact{one("a", "")}, false},
		{[]*fsmpb.NamedArtefact{one("", "x")}, false},
		{[]*fsmpb.NamedArtefact{nil}, false},
		{[]*fsmpb.NamedArtefact{one(strings.Repeat("n", NameMax+1), "x")}, false},
	} {
		if err := CheckNamed(c.list); (err == nil) != c.valid {
			t.Errorf("%v: %v", c.list, err)
		}
	}
}
