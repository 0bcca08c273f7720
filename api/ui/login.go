package ui

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode"

	v1 "osqueue/client/api/v1"
)

// loginPath is the path of the sign-in page below Root.
const loginPath = "/login"

// loginPage is the data of the sign-in page.
type loginPage struct {
	Code    string // of a link; "": the page asks for a token
	Next    string // the path of the page after it; "": the overview
	Problem string
}

// dataPaths are the paths below Root, as patterns, that the script reads. They are no pages.
var dataPaths = []string{"/stream", "/where", "/jobs/{id}/log"}

// askLogin redirects a browser to the sign-in page if err says that a token is needed, and to the
// page that it asked for after that. An action gets an error page, because a redirect would lose
// the form without a word.
func (q *request) askLogin(err error) bool {
	var e *apiError
	if !errors.As(err, &e) || e.Status != http.StatusUnauthorized || q.r.Header.Get("Authorization") != "" {
		return false
	}
	if _, err := q.r.Cookie(cookieName(q.r)); err == nil {
		q.setCookie("") // the token in it is not valid any more
	}
	if q.r.Method != http.MethodGet {
		q.fail(q.sessionEnded())
		return true
	}
	next := ""
	if !slices.Contains(dataPaths, strings.TrimPrefix(q.r.Pattern, "GET "+Root)) {
		var p page
		q.place(&p)
		next = p.Path
	}
	http.Redirect(q.w, q.r, loginThen(next), http.StatusSeeOther)
	return true
}

// loginThen returns the path of the sign-in page that leads to next, a path of the dashboard.
func loginThen(next string) string {
	if next == Root || !isPage(next) {
		return Root + loginPath
	}
	return Root + loginPath + "?" + url.Values{"next": {next}}.Encode()
}

// isPage reports whether a path, with its query, is one of the dashboard. A path with dots may lead out
// of it, and a redirect would shorten it to that.
func isPage(target string) bool {
	p, _, _ := strings.Cut(target, "?")
	// Browsers read %2e as a dot and a backslash as a slash, and leave control characters out.
	for segment := range strings.SplitSeq(p, "/") {
		name, err := url.PathUnescape(segment)
		if err != nil || name == "." || name == ".." || strings.ContainsFunc(segment, func(r rune) bool { return r == '\\' || unicode.IsControl(r) }) {
			return false
		}
	}
	return path.Clean(p) == strings.TrimSuffix(p, "/") && (p == Root || strings.HasPrefix(p, Root+"/"))
}

// sessionEnded is the error of an action without a valid session.
func (q *request) sessionEnded() *apiError {
	e := &apiError{Status: http.StatusUnauthorized, Title: "The session has ended", Detail: "Sign in, and repeat the action.", SignIn: loginThen("")}
	if q.lsn == "" { // otherwise the session ended in the middle
		e.Detail = "Nothing was changed. " + e.Detail
	}
	if from, err := url.Parse(q.r.Referer()); err == nil {
		e.SignIn = loginThen(from.RequestURI())
	}
	return e
}

// showLogin is the sign-in page.
func showLogin(q *request) error {
	return q.loginPage(http.StatusOK, loginPage{Code: q.r.URL.Query().Get("code"), Next: q.r.URL.Query().Get("next")})
}

func (q *request) loginPage(status int, data loginPage) error {
	p := page{Title: "Sign in", ReadOnly: q.cfg.ReadOnly, Outside: true, Data: data}
	q.place(&p)
	if err := q.get(v1.PathStatus, nil, &p.Status); err != nil {
		return err
	}
	return q.send(status, "login", &p)
}

// login opens a session with a token, or with the code of a link.
func login(q *request) error {
	token, next := strings.TrimSpace(q.r.PostForm.Get("token")), q.r.PostForm.Get("next")
	if code := q.r.PostForm.Get("code"); code != "" {
		if token = q.links.end(code, ""); token == "" {
			return q.loginPage(http.StatusForbidden, loginPage{Problem: "The link was used, or is too old. Make another one with osqueue ui."})
		}
	}
	q.r.Header.Set("Authorization", "Bearer "+token)
	var self v1.Self
	var refused *apiError
	switch err := q.call(http.MethodGet, v1.PathSelf, nil, nil, &self); {
	case errors.As(err, &refused) && refused.Status < http.StatusInternalServerError:
		return q.loginPage(http.StatusForbidden, loginPage{Next: next, Problem: "Not signed in: " + refused.Detail})
	case err != nil:
		return err
	}
	key := q.sessions.add(token, q.host())
	if key == "" {
		return q.loginPage(http.StatusForbidden, loginPage{Next: next, Problem: fmt.Sprintf("Not signed in: the token has more than %d bytes.", tokenMax)})
	}
	q.setCookie(key)
	if !isPage(next) { // a link must not lead to another site
		next = Root
	}
	return q.redirect(next)
}

// logout ends the session. The token stays valid.
func logout(q *request) error {
	q.sessions.end(q.session(), q.host())
	q.setCookie("")
	return q.redirect(Root + loginPath)
}

// makeLink answers a program that has a token with the path of a link that signs a browser in.
// If no token is needed it is the path of the dashboard.
func makeLink(q *request) error {
	var self v1.Self
	to := Root
	err := q.call(http.MethodGet, v1.PathSelf, nil, nil, &self)
	if scheme, token, ok := strings.Cut(q.r.Header.Get("Authorization"), " "); err == nil && self.ID != "" && ok && strings.EqualFold(scheme, "Bearer") {
		to += loginPath + "?" + url.Values{"code": {q.links.add(strings.TrimSpace(token), "")}}.Encode()
	}
	var refused *apiError
	switch {
	case errors.As(err, &refused):
		http.Error(q.w, refused.Detail, refused.Status)
		return nil
	case err != nil:
		return err
	}
	q.w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(q.w).Encode(struct {
		Path string `json:"path"`
	}{to})
}

// stream passes on the events of the API, for the script of the pages.
func stream(q *request) error {
	r := q.r.Clone(q.r.Context())
	r.URL.Path, r.URL.RawPath, r.RequestURI = v1.PathEvents, "", v1.PathEvents
	if value := q.authorization(); value != "" {
		r.Header.Set("Authorization", value)
	}
	q.cfg.API.ServeHTTP(q.w, r)
	return nil
}
