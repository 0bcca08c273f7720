package ui

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"

	v1 "osqueue/client/api/v1"
)

// loginPath is the path of the sign-in page below Root.
const loginPath = "/login"

// loginPage is the data of the sign-in page.
type loginPage struct {
	Code    string // of a link; "": the page asks for a token
	Problem string
}

// askLogin redirects a browser to the sign-in page if err says that a token is needed.
func (q *request) askLogin(err error) bool {
	var e *apiError
	if !errors.As(err, &e) || e.Status != http.StatusUnauthorized || q.r.Header.Get("Authorization") != "" {
		return false
	}
	q.setCookie("") // the token in it is not valid any more
	http.Redirect(q.w, q.r, Root+loginPath, http.StatusSeeOther)
	return true
}

// showLogin is the sign-in page.
func showLogin(q *request) error {
	return q.loginPage(http.StatusOK, loginPage{Code: q.r.URL.Query().Get("code")})
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
	token := strings.TrimSpace(q.r.PostForm.Get("token"))
	if code := q.r.PostForm.Get("code"); code != "" {
		if token = q.sessions.take(code); token == "" {
			return q.loginPage(http.StatusForbidden, loginPage{Problem: "The link was used, or is too old. Make another one with osqueue ui."})
		}
	}
	q.r.Header.Set("Authorization", "Bearer "+token)
	var self v1.Self
	var refused *apiError
	switch err := q.call(http.MethodGet, v1.PathSelf, nil, nil, &self); {
	case errors.As(err, &refused) && refused.Status < http.StatusInternalServerError:
		return q.loginPage(http.StatusForbidden, loginPage{Problem: "Not signed in: " + refused.Detail})
	case err != nil:
		return err
	}
	q.setCookie(q.sessions.seal(token, strings.ToLower(q.r.Host)))
	return q.redirect(Root)
}

// logout ends the session in this browser. The token stays valid.
func logout(q *request) error {
	q.setCookie("")
	return q.redirect(Root + loginPath)
}

// makeLink answers a program that has a token with the path of a link that signs a browser in.
// If no token is needed it is the path of the dashboard.
func makeLink(q *request) error {
	var self v1.Self
	path := Root
	err := q.call(http.MethodGet, v1.PathSelf, nil, nil, &self)
	if scheme, token, ok := strings.Cut(q.r.Header.Get("Authorization"), " "); err == nil && self.ID != "" && ok && strings.EqualFold(scheme, "Bearer") {
		path += loginPath + "?" + url.Values{"code": {q.sessions.add(strings.TrimSpace(token))}}.Encode()
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
	}{path})
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
