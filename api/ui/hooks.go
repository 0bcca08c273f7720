package ui

import (
	"errors"
	"net/http"
	"net/url"

	v1 "osqueue/client/api/v1"
)

// hooks is the list of webhooks.
func hooks(q *request) error {
	var list v1.HookList
	if err := q.get(v1.PathHooks, nil, &list); err != nil {
		return err
	}
	return q.render("hooks", "Hooks", "hooks", &list)
}

type hookData struct {
	Hook       v1.Hook
	Deliveries v1.HookDeliveries
}

// hook is the page of one webhook, with its deliveries.
func hook(q *request) error {
	var d hookData
	path := segment(v1.PathHooks, q.r.PathValue("name"))
	if err := q.get(path, nil, &d.Hook); err != nil {
		return err
	}
	// The leader delivers, so that it knows the attempts. Without a leader there are none.
	var refused *apiError
	err := q.call(http.MethodGet, path+"/"+v1.ActionDeliveries, url.Values{}, nil, &d.Deliveries)
	if err != nil && (!errors.As(err, &refused) || refused.Status < http.StatusInternalServerError) {
		return err
	}
	return q.render("hook", "Hook "+d.Hook.Name, "hooks", &d)
}

// changeHook sends a test event, or deletes a webhook.
func changeHook(q *request) error {
	path, action := segment(v1.PathHooks, q.r.PathValue("name")), q.r.PathValue("action")
	switch action {
	case v1.ActionTest:
		if err := q.post(path+"/"+v1.ActionTest, nil, nil); err != nil {
			return err
		}
		return q.back(segment("/hooks", q.r.PathValue("name")), action, 0)
	case "delete":
		if err := q.write(http.MethodDelete, path, nil, nil); err != nil {
			return err
		}
		return q.back("/hooks", action, 0)
	}
	return badAction(action)
}
