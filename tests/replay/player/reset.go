package player

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/go-json-experiment/json"

	v1 "osqueue/client/api/v1"
)

// resetRounds bounds the number of rounds of a reset: a lease may expire in between, and a page
// shows only some of the jobs.
const resetRounds = 100

// reset empties the queue, by the native interface.
func (p *Player) reset(ctx context.Context) error {
	if p.o.Reset != nil {
		return p.o.Reset(ctx)
	}
	for range resetRounds {
		var jobs v1.JobList
		if err := p.native(ctx, http.MethodGet, v1.PathJobs+"?"+v1.ParamStatus+"="+v1.StatusAll, nil, &jobs); err != nil {
			return err
		}
		if len(jobs.Jobs) == 0 {
			return nil
		}
		for i := range jobs.Jobs {
			p.release(ctx, &jobs.Jobs[i])
		}
		everything := v1.ChangeJobs{Filter: &v1.Filter{All: true}}
		if err := p.native(ctx, http.MethodPost, v1.PathDelete, everything, new(v1.Changed)); err != nil {
			return err
		}
	}
	return errors.New("it does not become empty")
}

// release releases a running job, because a running job cannot be deleted. If that fails, the
// job has returned to the queue by itself, or the next round tries again.
func (p *Player) release(ctx context.Context, j *v1.Job) {
	if j.Status != v1.StatusInProgress {
		return
	}
	path := v1.PathJobs + "/" + url.PathEscape(j.ID) + "/release"
	_ = p.native(ctx, http.MethodPost, path, v1.Release{WorkerID: j.WorkerID, Token: j.Token}, new(v1.Reported))
}

// native makes a call of the native interface.
func (p *Player) native(ctx context.Context, method, path string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, DefaultTimeout)
	defer cancel()
	m := &message{method: method, server: p.at.Leader, path: path, header: http.Header{}}
	if in != nil {
		body, err := json.Marshal(in)
		if err != nil {
			return err
		}
		m.body, m.hasBody = body, true
		m.header.Set("Content-Type", "application/json")
	}
	a, err := p.send(ctx, m)
	if err != nil {
		return err
	}
	if a.Status != http.StatusOK {
		return fmt.Errorf("%s %s: %d: %s", method, path, a.Status, bytes.TrimSpace(a.Body))
	}
	return json.Unmarshal(a.Body, out)
}
