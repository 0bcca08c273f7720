package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/proto"

	"osqueue/cmd/osqueue/view"
)

// reloaded are the settings that a running node takes from a changed file: of the log, of jobs, and of identities.
var reloaded = []string{
	"log-level",
	"lease", "max-attempts", "worker-timeout", "retain-completed", "retain-completed-count", "max-jobs", "max-bytes", "max-payload",
	"idempotency-window", "idempotency-keys",
	"roles-file", "oidc-issuer", "oidc-audience", "oidc-algorithms", "oidc-leeway",
}

func needsRestart(name string) bool { return !slices.Contains(reloaded, name) }

// reloadLook is how often a node looks whether its files have changed.
const reloadLook = 5 * time.Second

// reloader reads the settings of a running node again, at SIGHUP and when the file of --config or of --roles-file has
// changed. Flags and the environment of a process do not change, so what they give stays. If the files have a mistake that a
// start would refuse, nothing changes. Its methods are called by one goroutine at a time.
type reloader struct {
	g       *view.Globals
	log     hclog.Logger
	started *serveOptions // of the start
	o       *serveOptions // read last
	hangups chan os.Signal
	seen    string // of the files
}

// newReloader returns a reloader that notes SIGHUP from now on; otherwise SIGHUP would end the process. The caller calls
// close.
func newReloader(g *view.Globals, o *serveOptions) *reloader {
	r := &reloader{g: g, log: o.node.Logger, started: o, o: o, hangups: make(chan os.Signal, 1)}
	r.seen = r.look()
	signal.Notify(r.hangups, syscall.SIGHUP)
	return r
}

func (r *reloader) close() { signal.Stop(r.hangups) }

// run reloads the settings of s until ctx ends.
func (r *reloader) run(ctx context.Context, s *server) {
	tick := time.NewTicker(reloadLook)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.hangups:
			if id := r.started.tls.identity; id != nil {
				id.Refresh()
			}
		case <-tick.C:
			if r.look() == r.seen {
				continue
			}
		}
		r.seen = r.look()
		if err := r.reload(ctx, s); err != nil {
			r.log.Error("the settings cannot be read again; those in force stay", "error", err)
		}
	}
}

// look describes the versions of the files.
func (r *reloader) look() (seen string) {
	for _, path := range []string{r.o.config, r.o.security.rolesFile} {
		if info, err := os.Stat(path); path != "" && err == nil {
			seen += fmt.Sprint(path, info.ModTime().UnixNano(), info.Size(), " ")
		}
	}
	return seen
}

// reload reads the settings and applies those that have changed.
func (r *reloader) reload(ctx context.Context, s *server) error {
	next, err := r.read()
	if err != nil {
		return err
	}
	var restart []string
	if was := r.started.security.issuer; (next.security.issuer == "") != (was == "") {
		restart, next.security.issuer = append(restart, "oidc-issuer"), was
	}
	changed, other := differing(r.o, next), differing(r.started, next)
	changed = slices.DeleteFunc(changed, needsRestart)
	restart = append(restart, slices.DeleteFunc(other, func(name string) bool { return !needsRestart(name) })...)
	if err := r.replaceIdentities(s, next); err != nil {
		return err
	}
	r.log.SetLevel(hclog.LevelFromString(next.logLevel))
	if !proto.Equal(next.node.Settings, r.o.node.Settings) {
		if err := s.node.SetSettings(ctx, next.node.Settings); err != nil {
			r.log.Warn("the changed settings of jobs are in force from the next leader on", "error", err)
		}
	}
	r.o = next
	r.log.Info("the settings were read again", "file", r.o.config, "changed", cmp.Or(strings.Join(changed, " "), "nothing"))
	if len(restart) > 0 {
		r.log.Warn("these settings differ from those of the start, and need a restart of this node", "settings", strings.Join(restart, " "))
	}
	return nil
}

// replaceIdentities puts the rules of roles and the verifier of JWTs into force if they have changed.
func (r *reloader) replaceIdentities(s *server, next *serveOptions) error {
	was, now := &r.o.security, &next.security
	if reflect.DeepEqual(was.oidcConfig(), now.oidcConfig()) {
		return nil // with the rules
	}
	who, err := now.openIdentities(r.log, s.who.Load())
	if err == nil {
		s.who.Store(who)
		s.api.EndIdentities()
	}
	return err
}

// read returns the settings that a start of the process would have now.
func (r *reloader) read() (*serveOptions, error) {
	next, err := r.started.given.copyGiven()
	if err != nil {
		return nil, err
	}
	next.given = r.started.given
	if err := next.fromFile(); err != nil {
		return nil, err
	}
	quiet := &view.Globals{Err: io.Discard, Getenv: r.g.Getenv, Network: r.g.Network, Version: r.g.Version} // its notices were logged at the start
	return next, next.complete(quiet)
}

// copyGiven returns new options with what flags and the environment have given.
func (o *serveOptions) copyGiven() (to *serveOptions, err error) {
	var errs []error
	to = newOptions()
	to.bind(pflag.NewFlagSet("serve", pflag.ContinueOnError))
	to.config = o.config
	o.flags.VisitAll(func(f *pflag.Flag) {
		if !f.Changed || o.ofFile(f) {
			return
		}
		other := to.flags.Lookup(f.Name)
		if list, ok := f.Value.(pflag.SliceValue); ok {
			err = other.Value.(pflag.SliceValue).Replace(list.GetSlice())
		} else {
			err = other.Value.Set(textOf(f))
		}
		errs = append(errs, err)
		other.Changed = true
		view.SetSource(other, view.Source(f))
	})
	return to, errors.Join(errs...)
}

// ofFile reports whether a value comes from the file of --config.
func (o *serveOptions) ofFile(f *pflag.Flag) bool {
	return o.config != "" && strings.HasPrefix(view.Source(f), o.config+":")
}

// textOf returns the text that sets a flag to the value that it has.
func textOf(f *pflag.Flag) string {
	text := f.Value.String()
	if text == "" && f.Value.Type() == "duration" {
		return "0s"
	}
	return text
}

// differing returns the names of the settings that differ.
func differing(a, b *serveOptions) (names []string) {
	a.flags.VisitAll(func(f *pflag.Flag) {
		if b.flags.Lookup(f.Name).Value.String() != f.Value.String() {
			names = append(names, f.Name)
		}
	})
	return names
}
