package otlp

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// A collector that is overloaded gets the batch again, with the headers of the environment.
func TestUploadIsRepeated(t *testing.T) {
	t.Parallel()
	n := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n++; n == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		body, err := gzip.NewReader(r.Body)
		if err != nil {
			t.Error(err)
			return
		}
		text, _ := io.ReadAll(body)
		var in tracepb.TracesData
		if err := proto.Unmarshal(text, &in); err != nil || len(in.ResourceSpans) != 1 {
			t.Errorf("%v, %v", &in, err)
		}
		if r.URL.Path != "/x/v1/traces" || r.Header.Get("Authorization") != "Bearer a b" || r.Header.Get("X") != "2" {
			t.Errorf("%s with %v", r.URL.Path, r.Header)
		}
	}))
	defer srv.Close()
	u := mustUploader(t, map[string]string{
		"ENDPOINT": srv.URL + "/x/", "HEADERS": "Authorization=Bearer%20a%20b, x=2", "COMPRESSION": "gzip",
	})
	if err := u.UploadTraces(t.Context(), []*tracepb.ResourceSpans{{}}); err != nil || n != 2 {
		t.Errorf("%d requests, %v", n, err)
	}
}

// A request that the collector refuses is not repeated.
func TestRefusedUploadIsNotRepeated(t *testing.T) {
	t.Parallel()
	n := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n++
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer srv.Close()
	u := mustUploader(t, map[string]string{"TRACES_ENDPOINT": srv.URL + "/own"})
	err := u.UploadTraces(t.Context(), nil)
	if err == nil || n != 1 || !strings.Contains(err.Error(), "401") {
		t.Errorf("%d requests, %v", n, err)
	}
}

// An uploader has done with the body when it returns, also if the collector answered before it read the
// body. The race detector finds a reader. A collector that moved gets the whole body.
func TestBodyIsFreeAfterUpload(t *testing.T) {
	t.Parallel()
	body := bytes.Repeat([]byte("x"), 4<<20)
	got := 0
	mux := http.NewServeMux()
	mux.Handle("/v1/traces", http.RedirectHandler("/moved", http.StatusTemporaryRedirect))
	mux.HandleFunc("/moved", func(_ http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		got = len(text)
	})
	mux.HandleFunc("/full/v1/traces", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusRequestEntityTooLarge) })
	srv := httptest.NewServer(mux)
	defer srv.Close()
	for _, path := range []string{"", "/full"} {
		u := mustUploader(t, map[string]string{"ENDPOINT": srv.URL + path})
		if err := u.upload(t.Context(), body); (err != nil) != (path == "/full") {
			t.Errorf("%s: %v", path, err)
		}
		clear(body)
	}
	if got != len(body) {
		t.Errorf("the collector got %d bytes of %d", got, len(body))
	}
}

func mustUploader(t *testing.T, vars map[string]string) *uploader {
	t.Helper()
	u, err := newUploader(func(name string) string { return vars[strings.TrimPrefix(name, "OTEL_EXPORTER_OTLP_")] })
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// A wrong variable is refused with its name.
func TestWrongEnvironment(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"ENDPOINT": "collector:4318", "PROTOCOL": "grpc", "TIMEOUT": "10s", "COMPRESSION": "zstd", "HEADERS": "a",
		"CERTIFICATE": "/no/such", "CLIENT_KEY": "/no/such",
	} {
		_, err := newUploader(func(n string) string {
			if n == "OTEL_EXPORTER_OTLP_"+name {
				return value
			}
			return ""
		})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s=%s: %v", name, value, err)
		}
	}
}
