package legacy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	"github.com/google/uuid"
)

// bodyLimit is the limit of the legacy REST API.
const bodyLimit = 1 << 20

func (b *broker) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/jobs", b.write(b.submit))
	mux.HandleFunc("POST /v1/jobs/claim", b.write(b.claim))
	mux.HandleFunc("POST /v1/jobs/{id}/heartbeat", b.write(b.keepAlive))
	mux.HandleFunc("POST /v1/jobs/{id}/complete", b.write(b.complete))
	mux.HandleFunc("GET /v1/stats", b.read(func(d *parsed) (any, error) { return stats(d) }))
	mux.HandleFunc("GET /v1/jobs", b.read(list))
	mux.HandleFunc("GET /state", b.read(func(d *parsed) (any, error) { return d.object, nil }))
	mux.HandleFunc("GET /healthz", b.read(func(*parsed) (any, error) { return members("status", "ok"), nil }))
	mux.HandleFunc("GET /v1/throttle-stats", b.read(func(*parsed) (any, error) { return members("throttling", false), nil }))
	mux.HandleFunc("GET /v1/ws", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "Origin")
		w.Header().Set("Access-Control-Expose-Headers", "Connect-Protocol-Version")
		if origin := r.Header.Get("Origin"); origin != "" {
			w.Header().Set("Access-Control-Allow-Origin", origin)
		}
		if _, pattern := mux.Handler(r); pattern == "" {
			send(w, http.StatusNotFound, members(
				"message", fmt.Sprintf("Route %s:%s not found", r.Method, r.URL.RequestURI()), "error", "Not Found", "statusCode", 404.0))
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// members is an object of names and values.
func members(pairs ...any) *object {
	o := newObject()
	for i := 0; i < len(pairs); i += 2 {
		o.set(pairs[i].(string), pairs[i+1])
	}
	return o
}

func send(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(stringify(v))
}

func refuse(w http.ResponseWriter, tag string, err error) {
	send(w, http.StatusInternalServerError, members("_tag", tag, "message", err.Error()))
}

// read answers from the last committed document.
func (b *broker) read(view func(*parsed) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		text, _ := b.engine.state()
		d, err := b.cfg.parse(text)
		var v any
		if err == nil {
			v, err = view(d)
		}
		if err != nil {
			refuse(w, "StorageBackendError", err)
			return
		}
		send(w, http.StatusOK, v)
	}
}

// call executes a write. It answers after the write is stored; a nil answer is empty.
type call func(r *http.Request, body *object) (op operation, answer func() any)

func (b *broker) write(c call) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := body(r)
		if err != nil {
			refuse(w, "BrokerProtocolError", err)
			return
		}
		op, answer := c(r, body)
		switch err := b.engine.submit(op); {
		case errors.Is(err, errCAS):
			refuse(w, "CASConflictError", err)
		case err != nil:
			refuse(w, "StorageBackendError", err)
		case answer == nil:
			w.WriteHeader(http.StatusNoContent)
		default:
			send(w, http.StatusOK, answer())
		}
	}
}

// body decodes the fields of a request. A body that is not an object has no fields.
func body(r *http.Request) (*object, error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, fmt.Errorf("unsupported media type %q", r.Header.Get("Content-Type"))
	}
	text, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, bodyLimit))
	if err != nil {
		return nil, err
	}
	v, err := parse(bytes.TrimSpace(text))
	if err != nil {
		return nil, err
	}
	if v == nil {
		return nil, errType
	}
	o, ok := v.(*object)
	if !ok {
		o = newObject()
	}
	return o, nil
}

func (b *broker) submit(_ *http.Request, in *object) (operation, func() any) {
	s := submission{id: uuid.NewString(), jobType: in.values["type"], maxAttempts: in.values["maxAttempts"]}
	s.payload, s.hasPayload = in.get("payload")
	return func(d *parsed, now float64) error { return d.submit(s, now) },
		func() any { return members("jobId", s.id) }
}

// worker returns the worker that sent the request.
func worker(in *object) any {
	if id, there := in.get("workerId"); there {
		return id
	}
	return absent{}
}

func (b *broker) claim(_ *http.Request, in *object) (operation, func() any) {
	types, _ := in.values["types"].([]any)
	answer := newObject()
	op := func(d *parsed, now float64) error {
		j, err := d.claim(worker(in), types, now)
		answer = newObject() // only the last attempt counts
		if err != nil || j == nil {
			return err
		}
		answer.set("jobId", j.values["id"])
		for _, name := range []string{"payload", "type"} {
			if v, there := j.get(name); there {
				answer.set(name, v)
			}
		}
		return nil
	}
	return op, func() any { return answer }
}

func (b *broker) keepAlive(r *http.Request, in *object) (operation, func() any) {
	id := r.PathValue("id")
	return func(d *parsed, now float64) error { return d.heartbeat(id, worker(in), now) }, nil
}

func (b *broker) complete(r *http.Request, in *object) (operation, func() any) {
	id := r.PathValue("id")
	return func(d *parsed, _ float64) error { return d.complete(id, worker(in)) }, nil
}

func stats(d *parsed) (*object, error) {
	all, err := d.jobs()
	if err != nil {
		return nil, err
	}
	var waits, runs float64
	for _, element := range all {
		switch job(element).values["status"] {
		case unclaimed:
			waits++
		case inProgress:
			runs++
		}
	}
	o := members("total", waits+runs, "unclaimed", waits, "inProgress", runs)
	if total, there := d.get("completedTotal"); there {
		o.set("completedTotal", total)
	}
	o.set("brokerAddress", d.values["broker"])
	return o, nil
}

// listed returns the fields of a job in a listing. Two of them are 0 if unset.
var listed = []string{"id", "status", "payload", "type", "workerId", "createdAt", "attempts", "maxAttempts", "heartbeat"}

func list(d *parsed) (any, error) {
	answer, err := stats(d)
	if err != nil {
		return nil, err
	}
	all, _ := d.jobs() // stats has checked them
	jobs := make([]any, 0, len(all))
	for _, element := range all {
		shown := newObject()
		for _, name := range listed {
			if v, there := job(element).get(name); there {
				shown.set(name, v)
			} else if name == "maxAttempts" || name == "heartbeat" {
				shown.set(name, 0.0)
			}
		}
		jobs = append(jobs, shown)
	}
	answer.set("jobs", jobs)
	return answer, nil
}
