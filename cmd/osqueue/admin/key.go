package admin

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"osqueue/client/seal"
	"osqueue/cmd/osqueue/view"
)

// newKeyCommand returns the commands about key rings.
func newKeyCommand(g *view.Globals) *cobra.Command {
	cmd := view.NewGroup("key", "Make and change key rings, which encrypt payloads",
		`A key ring is a file. Producers and workers that have it (--keys, OSQUEUE_KEYS) encrypt
payloads, results, errors, logs and messages of progress; the nodes and the bucket see
only types, tags, groups, ids and times. The commands work on the file of --keys and ask
no node.

To replace a key: osqueue key rotate --stage adds one that only decrypts. Copy the file to
all producers and workers; they read it again by themselves within 10 s. Then osqueue key
use ID makes the new key the primary one: copy the file again. When no job of the old key
is left, osqueue key rm ID removes it.

A lost key ring means lost payloads. Keep a copy in a safe place.`)
	cmd.AddCommand(newKeyCreateCommand(g), newKeyListCommand(g), newKeyRotateCommand(g),
		newKeyIDCommand(g, "use", "Make a key of the ring the primary one, which encrypts", seal.Use),
		newKeyIDCommand(g, "rm", "Remove a key from the ring; what it encrypted can no longer be read", seal.Remove))
	return cmd
}

func newKeyCreateCommand(g *view.Globals) *cobra.Command {
	var scope string
	cmd := &cobra.Command{
		Use:   "create --keys FILE",
		Short: "Make a key ring with one key",
		Long:  `Makes a key ring with one key, in a file that only its owner can read.`,
		Example: `  osqueue key create --keys /etc/osqueue/keys.json
  OSQUEUE_KEYS=~/shop.keys osqueue key create --scope shop`,
		RunE: func(*cobra.Command, []string) error {
			return changeRing(g, func(file string) (seal.Content, error) { return seal.Create(file, scope) })
		},
	}
	cmd.Flags().StringVar(&scope, "scope", "", "name of the queue that the keys are for, part of what is authenticated (default: random)")
	return cmd
}

func newKeyListCommand(g *view.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "ls --keys FILE",
		Short: "List the keys of a ring, without their secrets",
		Long:  "Lists the keys of a ring, without their secrets.",
		RunE:  func(*cobra.Command, []string) error { return changeRing(g, seal.Describe) },
	}
}

func newKeyRotateCommand(g *view.Globals) *cobra.Command {
	var stage bool
	cmd := &cobra.Command{
		Use:   "rotate --keys FILE",
		Short: "Add a key to the ring, and make it the primary one",
		Long: `Adds a key to the ring and makes it the primary one, which encrypts. The other keys still
decrypt. If programs use copies of the file, add the key with --stage, copy the file,
then run osqueue key use: a worker without the key would fail jobs.`,
		RunE: func(*cobra.Command, []string) error {
			return changeRing(g, func(file string) (seal.Content, error) { return seal.Rotate(file, stage) })
		},
	}
	cmd.Flags().BoolVar(&stage, "stage", false, "add the key only; it decrypts until osqueue key use makes it the primary one")
	return cmd
}

// newKeyIDCommand returns a command that changes one key.
func newKeyIDCommand(g *view.Globals, name, short string, change func(file string, id uint32) (seal.Content, error)) *cobra.Command {
	return &cobra.Command{
		Use:   name + " --keys FILE ID",
		Short: short,
		Long:  short + ".",
		RunE: func(_ *cobra.Command, args []string) error {
			id, err := strconv.ParseUint(args[0], 10, 32)
			if err != nil {
				return view.Usagef("key %q: must be an id of osqueue key ls", args[0])
			}
			return changeRing(g, func(file string) (seal.Content, error) { return change(file, uint32(id)) })
		},
	}
}

// changeRing calls fn with the file of --keys and prints what the ring has then.
func changeRing(g *view.Globals, fn func(file string) (seal.Content, error)) error {
	file := g.KeyFile()
	if file == "" {
		return view.Usagef("give the file of the key ring with --keys, or in OSQUEUE_KEYS")
	}
	c, err := fn(file)
	if err != nil {
		return err
	}
	rows := [][]string{{"KEY", "USE", "CREATED"}}
	for _, k := range c.Keys {
		use := "decrypts"
		if k.Primary {
			use = "encrypts, decrypts"
		}
		created := "-"
		if !k.Created.IsZero() {
			created = k.Created.Format(time.RFC3339)
		}
		rows = append(rows, []string{strconv.FormatUint(uint64(k.ID), 10), use, created})
	}
	if err := g.Details(c, rows); err != nil || g.JSON {
		return err
	}
	return g.Printf("scope %s, file %s\n", c.Scope, c.Path)
}
