package view

import (
	"context"
	"iter"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
)

const (
	completeTimeout = time.Second // a shell waits for it
	completeMost    = 200         // names offered at a time
)

// names yields names of the cluster, and a description of each.
type names func(context.Context, *client.Client) iter.Seq2[string, string]

// argumentNames are the sources of a command's arguments, by the group of the command and
// the word of its usage. A key with the name of the command in between is for that command only.
var argumentNames = map[string]names{
	"job ID":        jobNames(v1.StatusAll),
	"job cancel ID": jobNames(v1.StatusBlocked, v1.StatusScheduled, v1.StatusUnclaimed, v1.StatusInProgress),
	"job delete ID": jobNames(v1.StatusBlocked, v1.StatusScheduled, v1.StatusUnclaimed, v1.StatusCompleted, v1.StatusDead, v1.StatusCancelled),
	"job retry ID":  jobNames(v1.StatusDead, v1.StatusCancelled, v1.StatusScheduled),
	"dead ID":       jobNames(v1.StatusDead),
	"queue TYPE":    typeNames,
	"cron NAME":     cronNames,
	"hook NAME":     hookNames,
	"batch ID":      batchNames,
	"worker NAME":   workerNames,
	"token ID":      tokenNames,
	"submit TYPE":   typeNames,
	"drop TYPE":     typeNames,
}

// fileArguments are the words of usages whose arguments may be files.
var fileArguments = []string{"FILE", "COMMAND", "ARGUMENT"}

// flagNames are the sources of flags.
var flagNames = map[string]names{
	"type":          typeNames,
	"types":         typeNames,
	"worker":        workerNames,
	"batch":         batchNames,
	"cron":          cronNames,
	"callback-type": typeNames,
	"tag":           tagNames,
	"group":         groupNames,
	"after":         jobNames(v1.StatusAll),
	"job":           jobNames(v1.StatusAll),
}

// fileFlags are the flags whose value is a file, and directoryFlags those whose value is a
// directory.
var (
	fileFlags = []string{
		"audit-log", "bootstrap-token", "ca", "cert", "config", "file", "hook-ca", "hook-key-file", "key", "keys", "roles-file",
		"sandbox-ro", "secret-file", "tls-ca", "tls-ca-key", "tls-cert", "tls-key", "token-file",
	}
	directoryFlags = []string{"copy-to", "data", "dir", "sandbox-dir"}
)

// Complete lets the shell complete arguments and flags of all commands below root with the
// types, jobs, tags, schedules, batches, workers and tokens that the cluster has. A cluster that
// does not answer within a second offers nothing. Only what is a file offers files.
func Complete(g *Globals, root *cobra.Command) {
	completeFlags(g, root, root.LocalFlags())
	if root.ValidArgsFunction == nil {
		root.ValidArgsFunction = g.arguments(root)
	}
	for _, cmd := range root.Commands() {
		Complete(g, cmd)
	}
}

// completeFlags sets what the flags of a command offer. Flags with completions of their own keep
// them.
func completeFlags(g *Globals, cmd *cobra.Command, flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		offer := cobra.FixedCompletions(nil, cobra.ShellCompDirectiveNoFileComp)
		switch source := flagNames[f.Name]; {
		case slices.Contains(fileFlags, f.Name):
			return // the default of shells
		case slices.Contains(directoryFlags, f.Name):
			offer = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs)
		case source != nil && cmd.Name() != "inspect": // it reads a bucket, which may be of another cluster
			offer = g.offer(source)
		}
		_ = cmd.RegisterFlagCompletionFunc(f.Name, offer) // it fails if the flag has completions
	})
}

// arguments returns the completions of the arguments of a command, by the words of its usage.
func (g *Globals) arguments(cmd *cobra.Command) cobra.CompletionFunc {
	words := strings.Fields(cmd.Use)[1:]
	group := cmd.Name()
	if parent := cmd.Parent(); parent != nil && parent.HasParent() {
		group = parent.Name()
	}
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		word := argumentAt(words, len(args))
		source := argumentNames[group+" "+cmd.Name()+" "+word]
		if source == nil {
			source = argumentNames[group+" "+word]
		}
		switch {
		case source != nil:
			return g.offer(source)(cmd, args, prefix)
		case slices.Contains(fileArguments, word):
			return nil, cobra.ShellCompDirectiveDefault
		case word == "DIR":
			return nil, cobra.ShellCompDirectiveFilterDirs
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// argumentAt returns the word of a usage for the argument at a position, without its brackets;
// "" if it has none. The last word counts for all further arguments if it may be repeated.
func argumentAt(words []string, at int) string {
	for _, word := range words {
		name := strings.Trim(word, "[]")
		switch {
		case name == "--":
			continue // the command of "run -- COMMAND" is an argument too
		case name == "" || !isLetter(name[0]):
			return "" // flags follow
		}
		repeated := strings.HasSuffix(word, "…") || strings.HasSuffix(name, "…") || strings.HasSuffix(name, "...")
		if at == 0 || repeated {
			return argumentWord.FindString(name)
		}
		at--
	}
	return ""
}

// argumentWord matches the first alternative of an argument in a usage.
var argumentWord = regexp.MustCompile(`^[A-Z-]+`)

// offer asks a source for the names that begin with what the user typed.
func (g *Globals) offer(source names) cobra.CompletionFunc {
	return func(cmd *cobra.Command, given []string, prefix string) ([]string, cobra.ShellCompDirective) {
		c, err := g.ClientWith(func(cfg *client.Config) {
			cfg.AttemptTimeout, cfg.RetryFor = completeTimeout, completeTimeout
		})
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(cmd.Context(), completeTimeout)
		defer cancel()
		var out []string
		for name, about := range source(ctx, c) {
			if !strings.HasPrefix(name, prefix) || PlainLine(name) != name {
				continue
			}
			if out = append(out, cobra.CompletionWithDesc(name, PlainLine(about))); len(out) == completeMost {
				break
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}
