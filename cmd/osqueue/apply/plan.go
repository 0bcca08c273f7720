package apply

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
)

// The actions of steps. Kept is none: the entry is in the cluster, and not in the file.
const (
	created = "created"
	changed = "changed"
	removed = "removed"
	rotated = "rotated"
	kept    = "kept"
)

// step is a difference between the file and the cluster, and the call that ends it.
type step struct {
	Action string       `json:"action"`
	Part   string       `json:"part"`
	Name   string       `json:"name"`
	Fields []difference `json:"fields,omitempty"` // of changed
	Entry  entry        `json:"entry,omitempty"`  // of created and kept tokens
	ID     string       `json:"id,omitzero"`      // of a token
	Secret string       `json:"secretFile,omitzero"`

	line int
	do   func(context.Context, *client.Client) (secret string, err error)
}

// difference is a field that differs. An absent value is the default.
type difference struct {
	Field string         `json:"field"`
	From  jsontext.Value `json:"from,omitempty"`
	To    jsontext.Value `json:"to,omitempty"`
}

// object returns how the lines of a step name what it is about.
func (s *step) object() string {
	name := s.Name
	if name == "" || strings.ContainsAny(name, " \n") {
		name = strconv.Quote(name)
	}
	if s.ID != "" {
		name += " (" + s.ID + ")"
	}
	return s.Part + "/" + name
}

// plan returns the steps that make the cluster what the file says. call bounds each request.
func plan(ctx context.Context, c *client.Client, f *file, v *vault, call caller) (steps []step, err error) {
	for i := range parts {
		p := &parts[i]
		list, there := f.entries[p.name]
		if !there {
			continue
		}
		var have map[string]entry
		err := call(ctx, func(ctx context.Context) (err error) {
			have, err = p.list(ctx, c)
			return err
		})
		if err != nil {
			return nil, err
		}
		if p.name == "crons" {
			if err := openPayloads(ctx, c, list, have, call); err != nil {
				return nil, err
			}
		}
		steps = append(steps, planPart(p, list, have, v)...)
	}
	if list, there := f.entries[partTokens]; there {
		var have []token
		err := call(ctx, func(ctx context.Context) (err error) {
			have, err = listTokens(ctx, c)
			return err
		})
		if err != nil {
			return nil, err
		}
		steps = append(steps, planTokens(list, have, v)...)
	}
	return steps, nil
}

// openPayloads decrypts payloads of schedules that the file has in clear, if this client has the keys.
func openPayloads(ctx context.Context, c *client.Client, list []wanted, have map[string]entry, call caller) error {
	for _, w := range list {
		cron, err := shown[v1.Cron](have[w.name])
		want, wantErr := shown[v1.NewCron](w.fields)
		if err := errors.Join(err, wantErr); err != nil {
			return err
		}
		if !client.IsSealed(cron.Job.Payload) || client.IsSealed(want.Job.Payload) {
			continue
		}
		cron.Name = w.name
		err = call(ctx, func(ctx context.Context) (err error) {
			cron.Job.Payload, err = c.OpenCron(ctx, &cron)
			return err
		})
		if errors.Is(err, client.ErrNoCipher) {
			continue // it differs, as far as can be seen
		}
		if err == nil {
			have[w.name], err = entryOf(cron.NewCron)
		}
		if err != nil {
			return fmt.Errorf("crons/%s: %w", w.name, err)
		}
	}
	return nil
}

// planPart returns the steps of a part.
func planPart(p *part, list []wanted, have map[string]entry, v *vault) (steps []step) {
	want := make(map[string]entry)
	for _, w := range list {
		want[w.name] = w.fields
	}
	for _, w := range list {
		s := step{Part: p.name, Name: w.name, line: w.line}
		is, there := have[w.name]
		if paused, ok := is["paused"]; ok && !w.paused && w.fields != nil {
			w.fields["paused"] = paused
		}
		s.Fields = differences("", is, w.fields)
		switch {
		case w.fields == nil && !there:
			continue
		case w.fields == nil:
			s.Action, s.Fields = removed, nil
			s.do = func(ctx context.Context, c *client.Client) (string, error) {
				if err := p.remove(c, ctx, w.name); err != nil && !client.IsNotFound(err) {
					return "", err
				}
				return "", nil
			}
		case !there && len(w.fields) == 0 && p.blank != nil && p.blank(w.name, have, want):
			continue
		case !there || len(s.Fields) > 0:
			s.Action = changed
			if !there {
				s.Action, s.Fields, s.Entry = created, nil, w.fields
			}
			s.do = func(ctx context.Context, c *client.Client) (string, error) {
				return p.put(ctx, c, w.name, is, w.fields)
			}
		case p.rotate != nil && v.cut(p.name, w.name):
			s.Action, s.Fields = rotated, nil
		default:
			continue
		}
		if p.rotate != nil && s.Action != removed {
			s.withSecret(v, there, func(ctx context.Context, c *client.Client) (string, error) { return p.rotate(ctx, c, w.name, w.fields) })
		}
		steps = append(steps, s)
	}
	for _, name := range slices.Sorted(maps.Keys(have)) {
		if _, there := want[name]; !there {
			steps = append(steps, step{Action: kept, Part: p.name, Name: name})
		}
	}
	return steps
}

// withSecret lets a step store the secret that its call makes, and rotate one whose file an earlier run has left empty.
func (s *step) withSecret(v *vault, there bool, rotate func(context.Context, *client.Client) (string, error)) {
	switch {
	case !there:
		s.Secret = v.path(s.Part, s.Name)
	case v.cut(s.Part, s.Name):
		s.Secret, s.do = v.path(s.Part, s.Name), rotate
	}
}

// planTokens returns the steps of the tokens.
func planTokens(list []wanted, have []token, v *vault) (steps []step) {
	ids, known := make(map[string]string), make(map[string]bool) // by name and rights
	for _, t := range have {
		ids[text(t.rights)] = t.id
	}
	for _, w := range list {
		rights := text(w.fields)
		id, there := ids[rights]
		if known[rights] {
			continue
		}
		known[rights] = true
		s := step{Part: partTokens, Name: w.name, ID: id, line: w.line}
		switch {
		case !there:
			s.Action, s.Entry = created, w.fields
			s.do = func(ctx context.Context, c *client.Client) (string, error) {
				rights, err := shown[v1.NewToken](w.fields)
				if err != nil {
					return "", err
				}
				made, err := c.CreateToken(ctx, rights)
				return made.Token, err
			}
		case v.cut(partTokens, w.name):
			s.Action = rotated
		default:
			continue
		}
		s.withSecret(v, there, func(ctx context.Context, c *client.Client) (string, error) {
			made, err := c.RotateToken(ctx, id, v1.RotateToken{})
			return made.Token, err
		})
		steps = append(steps, s)
	}
	for _, t := range have {
		if !known[text(t.rights)] {
			steps = append(steps, step{Action: kept, Part: partTokens, Name: nameOf(t.rights), ID: t.id, Entry: t.rights})
		}
	}
	return steps
}

// differences returns the fields that differ, also those of objects within.
func differences(prefix string, from, to entry) (list []difference) {
	names := slices.Sorted(maps.Keys(from))
	for name := range to {
		if _, there := from[name]; !there {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		a, b := from[name], to[name]
		if string(a) == string(b) {
			continue
		}
		var inA, inB entry
		if a.Kind() == jsontext.KindBeginObject && b.Kind() == jsontext.KindBeginObject && json.Unmarshal(a, &inA) == nil && json.Unmarshal(b, &inB) == nil {
			list = append(list, differences(prefix+name+".", inA, inB)...)
			continue
		}
		list = append(list, difference{Field: prefix + name, From: a, To: b})
	}
	return list
}
