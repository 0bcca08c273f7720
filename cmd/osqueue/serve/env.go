package serve

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"osqueue/cmd/osqueue/view"
)

// flagsFromEnv sets every flag that is not on the command line to the value of its
// environment variable, if that is set.
func flagsFromEnv(f *pflag.FlagSet, getenv func(string) string) error {
	var errs []error
	f.VisitAll(func(flag *pflag.Flag) {
		name := envOf(flag.Name)
		value := getenv(name)
		if flag.Changed || value == "" {
			return
		}
		if err := f.Set(flag.Name, value); err != nil {
			errs = append(errs, &view.UsageError{Err: fmt.Errorf("environment variable %s: %w", name, err)})
		}
	})
	return errors.Join(errs...)
}

// envOf returns the name of a flag's environment variable.
func envOf(flag string) string {
	return view.EnvPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}
