package auth_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/auth"
)

func TestTokenRoundTrip(t *testing.T) {
	s := auth.New()
	back, err := auth.Parse(s.Text)
	if err != nil || back != s || len(s.Hash) != 32 || !strings.HasPrefix(s.Text, "osq_"+s.ID+"_") {
		t.Fatalf("%v, same %v", err, back == s)
	}
	for i := range len(s.Text) {
		damaged := s.Text[:i] + "~" + s.Text[i+1:]
		if _, err := auth.Parse(damaged); !errors.Is(err, auth.ErrToken) || strings.Contains(err.Error(), s.Text[20:60]) {
			t.Fatalf("damaged at %d: %v", i, err)
		}
	}
}

func TestAuthorize(t *testing.T) {
	s, other := auth.New(), auth.New()
	state := &fsm.Token{Id: s.ID, Hash: []byte(s.Hash), Role: uint32(fsm.RoleWorker), ExpiresMs: 100, Family: other.ID}
	find := func(id string) *fsm.Token {
		if id == s.ID {
			return state
		}
		return nil
	}
	p, err := auth.Authorize(s.Text, 99, find)
	if err != nil || p.Owner != auth.OfToken(&fsm.Token{Id: other.ID}).Owner || !p.Has(auth.Work) || p.Has(auth.Enqueue) {
		t.Fatalf("%+v: %v", p, err)
	}
	forged := strings.Replace(other.Text, other.ID, s.ID, 1)
	for name, text := range map[string]string{"expired": s.Text, "unknown": other.Text, "no token": "", "forged": forged} {
		if _, err := auth.Authorize(text, 100, find); !errors.Is(err, auth.ErrToken) {
			t.Errorf("%s: %v", name, err)
		}
	}
	state.Hash, state.ExpiresMs = []byte(other.Hash), 0
	if _, err := auth.Authorize(s.Text, 1, find); !errors.Is(err, auth.ErrToken) {
		t.Errorf("another secret: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(auth.New().Text)
	f.Add("osq_a_b_c")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := auth.Parse(text)
		if err == nil && (s.Text != text || s.ID == "") || err != nil && !errors.Is(err, auth.ErrToken) {
			t.Fatalf("%+v: %v", s, err)
		}
	})
}

func TestScope(t *testing.T) {
	p := auth.OfToken(&fsm.Token{Id: "k", Role: uint32(fsm.RoleOperator), Types: []string{"film.*", "mail"}, MaxPayload: 5})
	typ := func(name string) *string { return &name }
	rules := auth.Rules{
		Programs: []string{"*.run"},
		Job:      func(id string) *fsm.Job { return &fsm.Job{ID: id, Type: id} },
		Cron: func(name string) *fsm.Cron {
			return &fsm.Cron{Job: &fsmpb.NewJob{Type: strings.TrimPrefix(name, "k/")}}
		},
	}
	enqueue := func(jobs ...*fsmpb.NewJob) *fsmpb.Mutation {
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{Jobs: jobs}}}
	}
	change := func(c *fsmpb.Change) *fsmpb.Mutation { return &fsmpb.Mutation{Op: &fsmpb.Mutation_Change{Change: c}} }
	claim := func(types ...string) *fsmpb.Mutation {
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_Claim{Claim: &fsmpb.Claim{Types: types}}}
	}
	setLimit := &fsmpb.Mutation{Op: &fsmpb.Mutation_SetLimit{SetLimit: &fsmpb.SetLimit{Pattern: "x"}}}
	hold := func(l *fsmpb.Lease) *fsmpb.Mutation {
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_ThrottleLimit{ThrottleLimit: &fsmpb.ThrottleLimit{Key: "x", Lease: l}}}
	}
	for name, c := range map[string]struct {
		m  *fsmpb.Mutation
		ok bool
	}{
		"enqueue":              {enqueue(&fsmpb.NewJob{Type: "mail"}, &fsmpb.NewJob{Type: "film.cut"}), true},
		"one of a batch":       {enqueue(&fsmpb.NewJob{Type: "mail"}, &fsmpb.NewJob{Type: "other"}), false},
		"a program":            {enqueue(&fsmpb.NewJob{Type: "film.run"}), false},
		"a large payload":      {enqueue(&fsmpb.NewJob{Type: "mail", Payload: []byte("123456")}), false},
		"no type":              {enqueue(&fsmpb.NewJob{}), false},
		"claim":                {claim("mail"), true},
		"claim of others":      {claim("mail", "other"), false},
		"claim of all":         {claim(), false},
		"cancel":               {change(&fsmpb.Change{Ids: []string{"mail"}}), true},
		"cancel of others":     {change(&fsmpb.Change{Ids: []string{"mail", "other"}}), false},
		"filter":               {change(&fsmpb.Change{Filter: &fsmpb.Filter{Type: typ("mail")}}), true},
		"filter without type":  {change(&fsmpb.Change{Filter: &fsmpb.Filter{Tag: "x"}}), false},
		"filter of others":     {change(&fsmpb.Change{Filter: &fsmpb.Filter{Type: typ("other")}}), false},
		"trigger":              {&fsmpb.Mutation{Op: &fsmpb.Mutation_TriggerCron{TriggerCron: &fsmpb.TriggerCron{Name: "mail"}}}, true},
		"trigger of others":    {&fsmpb.Mutation{Op: &fsmpb.Mutation_TriggerCron{TriggerCron: &fsmpb.TriggerCron{Name: "x"}}}, false},
		"replaces another":     {&fsmpb.Mutation{Op: &fsmpb.Mutation_PutCron{PutCron: &fsmpb.PutCron{Name: "x", Job: &fsmpb.NewJob{Type: "mail"}}}}, false},
		"settings":             {&fsmpb.Mutation{Op: &fsmpb.Mutation_SetQueue{SetQueue: &fsmpb.SetQueue{Name: "mail"}}}, true},
		"settings of others":   {&fsmpb.Mutation{Op: &fsmpb.Mutation_SetQueue{SetQueue: &fsmpb.SetQueue{Name: "x"}}}, false},
		"a token":              {&fsmpb.Mutation{Op: &fsmpb.Mutation_RevokeToken{RevokeToken: &fsmpb.RevokeToken{}}}, false},
		"forced":               {&fsmpb.Mutation{Op: &fsmpb.Mutation_ForceComplete{ForceComplete: &fsmpb.ForceComplete{JobId: "x"}}}, false},
		"a worker is dead":     {&fsmpb.Mutation{Op: &fsmpb.Mutation_WorkerDead{WorkerDead: &fsmpb.WorkerDead{}}}, false},
		"a list of a mutation": {&fsmpb.Mutation{Op: &fsmpb.Mutation_Group{Group: &fsmpb.Group{Mutations: []*fsmpb.Mutation{claim()}}}}, false},
		"a rule of its own":    {setLimit, true},
		"a hold of its own":    {hold(nil), true},
	} {
		err := p.CheckWrite(c.m, rules)
		if (err == nil) != c.ok || err != nil && !errors.Is(err, auth.ErrDenied) {
			t.Errorf("%s: %v", name, err)
		}
		admin := auth.LocalAdmin()
		if err := admin.CheckWrite(c.m, rules); err != nil {
			t.Errorf("%s, by the admin: %v", name, err)
		}
	}
	// Without a tenant a limit is everybody's.
	other := auth.Principal{Kind: auth.KindLegacy, Types: []string{"mail"}}
	if err := other.CheckWrite(setLimit, rules); !errors.Is(err, auth.ErrDenied) {
		t.Errorf("a rule for all: %v", err)
	}
	if err := other.CheckWrite(hold(nil), rules); !errors.Is(err, auth.ErrDenied) {
		t.Errorf("a hold for all: %v", err)
	}
	if err := other.CheckWrite(hold(&fsmpb.Lease{JobId: "mail"}), rules); err != nil {
		t.Errorf("a hold by a worker: %v", err)
	}
	m := claim("mail")
	p.Own(&fsmpb.Mutation{Op: &fsmpb.Mutation_Group{Group: &fsmpb.Group{Mutations: []*fsmpb.Mutation{m}}}})
	if m.GetClaim().Owner != p.Owner || p.Owner == 0 {
		t.Errorf("owner %d, want %d", m.GetClaim().Owner, p.Owner)
	}
}

// A node reads what another node writes, and no other text gives a principal more rights than
// a legacy client has.
func FuzzParseLegacy(f *testing.F) {
	f.Add("legacy?type=mail&type=film.%2A")
	f.Add("legacy?")
	f.Add("legacy")
	f.Add("local-admin")
	f.Fuzz(func(t *testing.T, text string) {
		p := auth.ParseLegacy(text)
		if p == nil {
			return
		}
		if p.Kind != auth.KindLegacy || p.Rights != 0 || p.Programs {
			t.Fatalf("%q: %+v", text, p)
		}
		again := auth.ParseLegacy(p.Text())
		if again == nil || !slices.Equal(again.Types, p.Types) {
			t.Fatalf("%q: %+v, then %+v", text, p, again)
		}
	})
}

// New jobs, batches, callbacks, schedules and workers of a principal with a quota count in it. All tokens of a
// family share an account.
func TestCount(t *testing.T) {
	job := func() *fsmpb.NewJob { return new(fsmpb.NewJob) }
	enqueue := &fsmpb.Enqueue{Jobs: []*fsmpb.NewJob{job(), job()}, NewBatch: &fsmpb.NewBatch{Callback: job()}}
	cron, worker := &fsmpb.PutCron{Job: job()}, new(fsmpb.RegisterWorker)
	ops := []*fsmpb.Mutation{{Op: &fsmpb.Mutation_Enqueue{Enqueue: enqueue}}, {Op: &fsmpb.Mutation_PutCron{PutCron: cron}}, {Op: &fsmpb.Mutation_RegisterWorker{RegisterWorker: worker}}}
	all := append(enqueue.Jobs, enqueue.NewBatch.Callback, cron.Job)
	check := func(p *auth.Principal, limits bool, account string, jobs, bytes int64) {
		t.Helper()
		for _, m := range ops {
			p.Count(m, limits)
		}
		quotas := []*fsmpb.Quota{enqueue.NewBatch.Quota, worker.Quota}
		for _, n := range all {
			quotas = append(quotas, n.Quota)
		}
		for i, q := range quotas {
			if q.GetAccount() != account || q.GetMaxJobs() != jobs || q.GetMaxBytes() != bytes {
				t.Errorf("quota %d: %v", i, q)
			}
		}
	}
	check(auth.OfToken(&fsm.Token{Id: "a"}), true, "", 0, 0)
	check(auth.OfToken(&fsm.Token{Id: "a", MaxJobs: 1}), true, "a", 1, 0)
	check(auth.OfToken(&fsm.Token{Id: "b", Family: "a", MaxJobs: 1, MaxBytes: 2}), true, "a", 1, 2)
	check(auth.OfToken(&fsm.Token{Id: "b", MaxBytes: 2}), false, "b", 0, 0)
}
