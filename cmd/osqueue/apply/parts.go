package apply

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"

	"osqueue/api/hooks"
	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/outbox"
	"osqueue/internal/auth"
)

// part is a part of the file whose entries have names.
type part struct {
	name string
	// read reads an entry of the file, and returns it in the form in which the cluster shows it.
	read func(*yaml.Node) (entry, error)
	// list returns the entries of the cluster.
	list func(context.Context, *client.Client) (map[string]entry, error)
	// put changes or makes an entry, and returns a secret if that has made one. have is the entry of the cluster; nil: none.
	put func(ctx context.Context, c *client.Client, name string, have, want entry) (secret string, err error)
	// remove removes an entry.
	remove func(*client.Client, context.Context, string) error
	// blank reports whether an entry without fields is the same as none, beside the entries of the cluster and of the file; nil:
	// it never is.
	blank func(name string, have, want map[string]entry) bool
	// rotate makes the secret of an entry again; nil: it has none.
	rotate func(ctx context.Context, c *client.Client, name string, want entry) (secret string, err error)
}

// parts are the parts with names, in the order in which they are applied. Jobs of schedules then meet the settings of their
// types.
var parts = []part{
	{
		name: "queues", remove: (*client.Client).RemoveQueue, put: putQueue,
		blank: func(string, map[string]entry, map[string]entry) bool { return true },
		read: readAs(func(q *v1.QueueSettings) error {
			q.RatePerSecond = thousandths(q.RatePerSecond, math.Round)
			return nil
		}),
		list: func(ctx context.Context, c *client.Client) (map[string]entry, error) {
			all := make(map[string]entry)
			for q, err := range c.Queues(ctx, "") {
				if err != nil {
					return nil, err
				}
				settings, err := entryOf(q.Settings)
				if err != nil {
					return nil, err
				}
				if len(settings) > 0 {
					all[q.Type] = settings
				}
			}
			return all, nil
		},
	},
	{
		name: "limits", remove: (*client.Client).RemoveLimit, list: listLimits,
		blank: func(name string, have, want map[string]entry) bool {
			return !covered(name, have) && !covered(name, want)
		},
		read: readAs(func(l *v1.LimitRule) error {
			l.RatePerSecond = thousandths(l.RatePerSecond, math.Round)
			return nil
		}),
		put: func(ctx context.Context, c *client.Client, name string, _, want entry) (string, error) {
			rule, err := shown[v1.LimitRule](want)
			if err != nil {
				return "", err
			}
			return "", c.SetLimit(ctx, name, rule)
		},
	},
	{
		name: "hooks", remove: (*client.Client).DeleteHook, read: readAs(tidyHook),
		list: func(ctx context.Context, c *client.Client) (map[string]entry, error) {
			list, err := c.Hooks(ctx)
			all := make(map[string]entry)
			for _, h := range list {
				if all[h.Name], err = entryAs(h, tidyHook); err != nil {
					return nil, err
				}
			}
			return all, err
		},
		put: func(ctx context.Context, c *client.Client, name string, _, want entry) (string, error) {
			return putHook(ctx, c, name, want, false)
		},
		rotate: func(ctx context.Context, c *client.Client, name string, want entry) (string, error) {
			return putHook(ctx, c, name, want, true)
		},
	},
	{
		name: "crons", remove: (*client.Client).DeleteCron, read: readAs(tidyCron),
		list: func(ctx context.Context, c *client.Client) (map[string]entry, error) {
			all := make(map[string]entry)
			for cron, err := range c.Crons(ctx) {
				if err != nil {
					return nil, err
				}
				if all[cron.Name], err = entryAs(cron, tidyCron); err != nil {
					return nil, err
				}
			}
			return all, nil
		},
		put: func(ctx context.Context, c *client.Client, name string, _, want entry) (string, error) {
			cron, err := shown[v1.NewCron](want)
			if err != nil {
				return "", err
			}
			_, err = c.PutCronAs(ctx, name, cron)
			return "", err
		},
	},
}

// readAs reads an entry of the file as a wire type. tidy gives it the form in which the cluster shows it.
func readAs[T any](tidy func(*T) error) func(*yaml.Node) (entry, error) {
	return func(node *yaml.Node) (entry, error) {
		var wire T
		if err := decode(node, &wire); err != nil {
			return nil, err
		}
		if err := tidy(&wire); err != nil {
			return nil, fmt.Errorf("line %d: %w", node.Line, err)
		}
		return entryOf(wire)
	}
}

// entryAs returns an answer of the API as an entry of the wire type of its request.
func entryAs[T any](answer any, tidy func(*T) error) (entry, error) {
	wire, err := shown[T](answer)
	if err == nil {
		err = tidy(&wire)
	}
	if err != nil {
		return nil, err
	}
	return entryOf(wire)
}

// thousandths rounds a rate as the API does.
func thousandths(rate float64, round func(float64) float64) float64 { return round(rate*1000) / 1000 }

// tidyHook writes globs of events as names, and leaves out limits that are the defaults.
func tidyHook(h *v1.NewHook) error {
	if h.Secret != "" || h.RotateSecret {
		return errors.New("secret and rotateSecret are no settings: the cluster makes the secret of a new hook")
	}
	kinds := outbox.Kinds(0)
	for _, glob := range h.On {
		matching := outbox.KindsMatching(glob)
		if matching == 0 {
			return nil // the cluster refuses it
		}
		kinds |= matching
	}
	h.On = kinds.Names()
	d := hooks.Thresholds(&outbox.Hook{Hook: new(fsmpb.Hook)})
	for value, usual := range map[*int64]int64{
		&h.OldestAgeMs: d.OldestAgeMs, &h.FailurePercent: d.FailurePercent, &h.DeadGrew: d.DeadGrew,
		&h.LagMs: d.LagMs, &h.BufferBytes: d.BufferBytes, &h.RetryForMs: d.RetryForMs,
	} {
		if *value == usual {
			*value = 0
		}
	}
	return nil
}

// tidyCron leaves out policies that are the defaults, and makes the unique key that the cluster would make.
func tidyCron(cron *v1.NewCron) error {
	if cron.Overlap == v1.OverlapAllow {
		cron.Overlap = ""
	}
	if cron.Missed == v1.MissedSkip {
		cron.Missed = ""
	}
	job := &cron.Job
	if len(job.UniqueFields) > 0 && job.UniqueKey == "" {
		key, err := v1.UniqueKey(job.Payload, job.UniqueFields)
		if err != nil {
			return fmt.Errorf("uniqueFields %w", err)
		}
		job.UniqueKey, job.UniqueFields = key, nil
	}
	if job.UniqueScope == v1.UniqueActive || job.UniqueKey == "" {
		job.UniqueScope = ""
	}
	return nil
}

// putQueue changes the fields that differ; those that are left out get their defaults.
func putQueue(ctx context.Context, c *client.Client, name string, have, want entry) (string, error) {
	change := make(entry)
	for field := range have {
		if _, there := want[field]; !there {
			change[field] = jsontext.Value("null")
		}
	}
	for field, value := range want {
		if string(have[field]) != string(value) {
			change[field] = value
		}
	}
	patch, err := shown[client.QueuePatch](change)
	if err != nil {
		return "", err
	}
	_, err = c.SetQueue(ctx, name, patch)
	return "", err
}

func putHook(ctx context.Context, c *client.Client, name string, want entry, rotate bool) (secret string, err error) {
	hook, err := shown[v1.NewHook](want)
	if err != nil {
		return "", err
	}
	hook.RotateSecret = rotate
	put, err := c.PutHook(ctx, name, hook)
	return put.Secret, err
}

// listLimits returns the rules of limits. The list of the API also has the keys that are in use. If one has no fields, it has
// a rule of its own only if it is covered, because the API names the pattern that counts for others.
func listLimits(ctx context.Context, c *client.Client) (map[string]entry, error) {
	all := make(map[string]entry)
	for l, err := range c.Limits(ctx) {
		if err != nil {
			return nil, err
		}
		if l.Pattern != "" {
			continue
		}
		if all[l.Name], err = entryAs(l, func(*v1.LimitRule) error { return nil }); err != nil {
			return nil, err
		}
	}
	maps.DeleteFunc(all, func(name string, rule entry) bool { return len(rule) == 0 && !covered(name, all) })
	return all, nil
}

// covered reports whether rules has a pattern for a name.
func covered(name string, rules map[string]entry) bool {
	for pattern := range rules {
		prefix, ok := strings.CutSuffix(pattern, "*")
		if ok && pattern != name && strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// tidyToken gives a token of the file, or of the cluster, the form of the other.
func tidyToken(t *v1.NewToken) error {
	if t.TTLMs != 0 {
		return errors.New("ttlMs: tokens that expire are no settings; make them with osqueue token create")
	}
	t.RatePerSecond = thousandths(t.RatePerSecond, math.Ceil)
	return nil
}

// token is a token of the cluster.
type token struct {
	id     string
	rights entry // with its name
}

// listTokens returns the tokens of the cluster that do not expire.
func listTokens(ctx context.Context, c *client.Client) (all []token, err error) {
	list, err := c.Tokens(ctx)
	for _, k := range list {
		if k.ExpiresAt != 0 {
			continue
		}
		if auth.IsID(k.Tenant) {
			k.Tenant = "" // it is a tenant by itself
		}
		rights, err := entryAs(k, tidyToken)
		if err != nil {
			return nil, err
		}
		all = append(all, token{id: k.ID, rights: rights})
	}
	return all, err
}

// nameOf returns the name of a token, or "".
func nameOf(e entry) string {
	var name string
	if err := json.Unmarshal(e["name"], &name); err != nil {
		return ""
	}
	return name
}
