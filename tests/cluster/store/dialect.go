package store

import (
	"fmt"
	"net/http"
	"strings"
)

// request holds the parts of a request that the proxy needs.
type request struct {
	write       bool // of an object
	conditional bool
	document    bool // it is about queue.json
	list        bool
	key         string // the access key that signs it
}

// dialect is how the clients of a store speak, and how it says no.
type dialect struct {
	url      func(endpoint string) string // the value of --bucket
	classify func(r *http.Request) request
	refusal  func(status int, code string) (contentType, body string)
	throttle []refusal
	conflict refusal
	denied   refusal // of a key that was revoked
}

// refusal is an answer that says that nothing was done.
type refusal struct {
	status int
	code   string
}

var s3Words = dialect{
	url: func(endpoint string) string {
		return fmt.Sprintf("s3://%s?region=us-east-1&endpoint=%s", bucketName, endpoint)
	},
	classify: func(r *http.Request) request {
		_, credential, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
		key, _, _ := strings.Cut(credential, "/")
		return request{
			key:         key,
			write:       r.Method == http.MethodPut,
			conditional: r.Header.Get("If-Match") != "" || r.Header.Get("If-None-Match") != "",
			document:    r.URL.Path == "/"+bucketName+"/"+docKey,
			list:        r.Method == http.MethodGet && r.URL.Query().Get("list-type") != "",
		}
	},
	refusal: func(_ int, code string) (string, string) {
		return "application/xml", `<?xml version="1.0" encoding="UTF-8"?><Error><Code>` + code + `</Code><Message>by the proxy</Message></Error>`
	},
	throttle: []refusal{
		{http.StatusServiceUnavailable, "SlowDown"},
		{http.StatusTooManyRequests, "TooManyRequests"},
	},
	conflict: refusal{http.StatusConflict, "ConditionalRequestConflict"},
	denied:   refusal{http.StatusForbidden, "InvalidAccessKeyId"},
}

var gcsWords = dialect{
	url: func(endpoint string) string {
		return fmt.Sprintf("gs://%s?endpoint=%s", bucketName, endpoint)
	},
	classify: func(r *http.Request) request {
		upload := r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, "/upload/")
		q := r.URL.Query()
		return request{
			write:       upload,
			conditional: q.Has("ifGenerationMatch"),
			list:        r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/b/"+bucketName+"/o"),
			document:    upload && q.Get("name") == docKey || strings.HasSuffix(r.URL.Path, "/b/"+bucketName+"/o/"+docKey),
		}
	},
	refusal: func(status int, code string) (string, string) {
		return "application/json", fmt.Sprintf(
			`{"error":{"code":%d,"message":"by the proxy","errors":[{"reason":%q,"message":"by the proxy"}]}}`, status, code)
	},
	throttle: []refusal{
		{http.StatusTooManyRequests, "rateLimitExceeded"},
		{http.StatusServiceUnavailable, "backendError"},
	},
	conflict: refusal{http.StatusConflict, "conflict"},
}
