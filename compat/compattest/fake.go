// Package compattest makes the calls of package compat to a fake of the API, for tests.
package compattest

import (
	"context"
	"net/http"

	"github.com/go-json-experiment/json"

	v1 "osqueue/client/api/v1"
	"osqueue/compat"
	"osqueue/internal/web"
)

// API is a compat.API that makes each call a request to a handler, in JSON.
type API struct{ http.Handler }

// Call implements compat.API.
func (f API) Call(ctx context.Context, method, target, remote string, in, out any) *v1.Problem {
	var body []byte
	var err error
	if in != nil {
		body, err = json.Marshal(in, compat.Lenient)
	}
	a := web.NewAnswer(make(http.Header))
	switch {
	case err != nil:
	case !f.Pass(ctx, method, target, remote, body, a):
		return &v1.Problem{Status: http.StatusServiceUnavailable, Tag: v1.TagLeaderGone}
	case a.Status >= http.StatusMultipleChoices:
		p := &v1.Problem{}
		err = json.Unmarshal(a.Body.Bytes(), p, compat.Lenient)
		if p.Status = a.Status; err == nil && p.Tag != "" {
			return p
		}
	case out != nil:
		err = compat.Decode(a, out)
	}
	if err != nil {
		return &v1.Problem{Status: http.StatusInternalServerError, Tag: v1.TagInternal, Detail: "the node failed to answer"}
	}
	return nil
}

// Pass implements compat.API.
func (f API) Pass(ctx context.Context, method, target, remote string, body []byte, into http.ResponseWriter) (whole bool) {
	r, err := web.NewRequest(ctx, method, target, remote, body)
	return err == nil && web.Serve(f.Handler, into, r)
}
