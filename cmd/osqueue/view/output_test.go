package view

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	v1 "osqueue/client/api/v1"
)

// screenOf returns globals that write to a buffer, which counts as a terminal of that
// width; 0 is no terminal.
func screenOf(width int, env map[string]string) (*Globals, *strings.Builder) {
	out := &strings.Builder{}
	return &Globals{
		Out: out, Err: out, Getenv: func(name string) string { return env[name] },
		Screen: func() (int, int, bool) { return width, 24, width > 0 },
	}, out
}

// listing is a command that prints two items.
func listing(g *Globals) *cobra.Command {
	type item struct {
		Name string  `json:"name"`
		Size float64 `json:"size"`
		Note *string `json:"note"`
		More []any   `json:"more"`
	}
	return &cobra.Command{Use: "ls", RunE: func(*cobra.Command, []string) error {
		t := &LongTable{G: g, Columns: Columns("NAME", "+SIZE", "STATUS")}
		for _, i := range []item{{Name: "漢字", Size: 12345678901234567}, {Name: "yes", More: []any{1, "a: b"}}} {
			if err := t.Add(i, func() []string { return []string{i.Name, "1", "dead \x1b[1m"} }); err != nil {
				return err
			}
		}
		return t.End()
	}}
}

func TestFormats(t *testing.T) {
	for line, want := range map[string]string{
		"ls":                "NAME  STATUS\n漢字  dead \\x1b[1m\nyes   dead \\x1b[1m\n",
		"ls -o wide":        "NAME  SIZE  STATUS\n漢字  1     dead \\x1b[1m\nyes   1     dead \\x1b[1m\n",
		"ls --output table": "NAME  STATUS\n漢字  dead \\x1b[1m\nyes   dead \\x1b[1m\n",
		"ls --json":         `{"name":"漢字","size":12345678901234568,"note":null,"more":[]}` + "\n" + `{"name":"yes","size":0,"note":null,"more":[1,"a: b"]}` + "\n",
		"-o json ls":        `{"name":"漢字","size":12345678901234568,"note":null,"more":[]}` + "\n" + `{"name":"yes","size":0,"note":null,"more":[1,"a: b"]}` + "\n",
	} {
		g, out := screenOf(0, nil)
		if code := Execute(t.Context(), strings.Fields(line), g, NewRoot(g, listing(g))); code != ExitOK || out.String() != want {
			t.Errorf("%s: %d\n%s\nwant:\n%s", line, code, out, want)
		}
	}
	g, out := screenOf(0, nil)
	code := Execute(t.Context(), strings.Fields("ls -o yaml"), g, NewRoot(g, listing(g)))
	if code != ExitUsage || !strings.Contains(out.String(), "table, wide, json") {
		t.Errorf("%d %s", code, out)
	}
}

// A line is cut at the edge of the terminal. With -o wide it is not.
func TestLinesFitTheTerminal(t *testing.T) {
	row := [][]string{{"a", "1", strings.Repeat("long ", 30)}}
	for format, fits := range map[string]bool{formatTable: true, formatWide: false} {
		g, out := screenOf(40, map[string]string{"NO_COLOR": "1"})
		g.format = format
		check(t, g.TableOf(Columns("NAME", "+SIZE", "NOTE"), row))
		for line := range strings.Lines(out.String()) {
			if width := ansi.StringWidth(strings.TrimSuffix(line, "\n")); fits && width > 40 || !fits && strings.HasPrefix(line, "a") && width < 100 {
				t.Errorf("%s: %d columns: %s", format, width, line)
			}
		}
	}
}

// The last cells of details are wrapped on a terminal, and keep their column. Words that are too
// long are cut into lines too.
func TestDetailsAreWrapped(t *testing.T) {
	rows := func() [][]string {
		return [][]string{{"id", "j"}, {"last error", "disk full " + strings.Repeat("x", 40) + " end"}}
	}
	g, out := screenOf(40, map[string]string{"NO_COLOR": "1"})
	check(t, g.Table(rows()))
	want := "id          j\nlast error  disk full\n            " + strings.Repeat("x", 28) + "\n            " + strings.Repeat("x", 12) + " end\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
	g, out = screenOf(40, map[string]string{"NO_COLOR": "1"})
	g.format = formatWide
	if err := g.Table(rows()); err != nil || strings.Count(out.String(), "\n") != 2 {
		t.Errorf("-o wide: %v\n%s", err, out)
	}
}

// A long name does not push the figures off the screen. Ids stay whole.
func TestLongCellsAreCut(t *testing.T) {
	rows := func() [][]string {
		return [][]string{{strings.Repeat("i", 36), strings.Repeat("type", 20), "12345", "67890"}, {"j", "t", "1", "2"}}
	}
	g, out := screenOf(80, map[string]string{"NO_COLOR": "1"})
	check(t, g.TableOf(Columns("ID", "TYPE", "RUNNING", "DEAD"), rows()))
	lines := strings.Split(out.String(), "\n")
	if want := strings.Repeat("i", 36) + "  typetypetypetypetypetypet…  12345    67890"; lines[1] != want || !strings.HasSuffix(lines[2], "1        2") {
		t.Errorf("%s", out)
	}
	for name, c := range map[string]struct {
		width int
		wide  string
	}{"no terminal": {0, formatTable}, "-o wide": {80, formatWide}} {
		g, out := screenOf(c.width, map[string]string{"NO_COLOR": "1"})
		g.format = c.wide
		if err := g.TableOf(Columns("ID", "TYPE", "RUNNING", "DEAD"), rows()); err != nil || strings.Contains(out.String(), "…") {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	g, _ = screenOf(30, nil)
	if err := g.TableOf(Columns("ID", "TYPE", "RUNNING", "DEAD"), rows()); err != nil { // there is no room at all
		t.Error(err)
	}
}

// If the rest does not fit, ids that are longer than a UUID lose their middle.
func TestLongIDsAreShortened(t *testing.T) {
	uuid := "0190a8c2-5f0c-7b52-9f3a-3a7c1d1f6b11"
	for _, c := range []struct {
		width        int
		format       string
		id, kind     string
		shown, aType string
	}{
		{80, formatTable, strings.Repeat("i", 90) + "z", "mail", strings.Repeat("i", 25) + "…" + strings.Repeat("i", 23) + "z", "mail"},
		{80, formatTable, "a" + strings.Repeat("漢", 50), "mail", "a" + strings.Repeat("漢", 12) + "…" + strings.Repeat("漢", 12), "mail"},
		{80, formatTable, strings.Repeat("i", 45) + "z", "mail", strings.Repeat("i", 45) + "z", "mail"}, // it fits
		{80, formatTable, strings.Repeat("i", 99), strings.Repeat("t", 30), strings.Repeat("i", 20) + "…" + strings.Repeat("i", 19), strings.Repeat("t", 13) + "…"},
		{60, formatTable, uuid, "mail", uuid, "mail"},
		{80, formatWide, strings.Repeat("i", 90), "mail", strings.Repeat("i", 90), "mail"},
		{0, formatTable, strings.Repeat("i", 90), "mail", strings.Repeat("i", 90), "mail"},
	} {
		g, out := screenOf(c.width, map[string]string{"NO_COLOR": "1"})
		g.format = c.format
		row := []string{c.id, c.kind, "running", "1 of 3", "2h"}
		check(t, g.TableOf(Columns("ID", "TYPE", "STATUS", "ATTEMPTS", "AGE"), [][]string{row}))
		line := strings.Split(out.String(), "\n")[1]
		if got := strings.Fields(line); got[0] != c.shown || got[1] != c.aType || c.width == 80 && !strings.HasSuffix(line, "2h") {
			t.Errorf("%d %s:\n%s", c.width, c.format, out)
		}
	}
	if got, want := ShortenID(strings.Repeat("漢", 21), 0), strings.Repeat("漢", 10)+"…"+strings.Repeat("漢", 9); got != want {
		t.Errorf("%s, want %s", got, want) // the 40th column is in the middle of a character
	}
}

// Help is broken at words and beside the flags, and examples stay as they are.
func TestHelpFitsTheTerminal(t *testing.T) {
	example := "osqueue ls --filter " + strings.Repeat("long ", 20)
	help := func(width int) string {
		g, out := screenOf(width, nil)
		cmd := &cobra.Command{Use: "ls", Long: strings.Repeat("word ", 30), Example: "  " + example, Run: func(*cobra.Command, []string) {}}
		cmd.Flags().String("filter", "", strings.Repeat("described ", 20))
		if code := Execute(t.Context(), []string{"ls", "--help"}, g, NewRoot(g, cmd)); code != ExitOK {
			t.Fatalf("%d %s", code, out)
		}
		return out.String()
	}
	narrow, wide := help(80), help(0)
	for line := range strings.Lines(narrow) {
		if len(line) > 81 && !strings.Contains(line, "osqueue ls") {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
	if strings.Join(strings.Fields(narrow), " ") != strings.Join(strings.Fields(wide), " ") || !strings.Contains(narrow, example) {
		t.Errorf("the help has another text:\n%s\n%s", narrow, wide)
	}
}

func TestColours(t *testing.T) {
	for _, c := range []struct {
		width int
		env   map[string]string
		want  bool
	}{
		{80, nil, true},
		{0, nil, false},
		{80, map[string]string{"NO_COLOR": "1"}, false},
		{80, map[string]string{"TERM": "dumb"}, false},
	} {
		g, out := screenOf(c.width, c.env)
		check(t, g.TableOf(Columns("TYPE", "DEAD", "STATUS"), [][]string{{"mail", "3", "dead"}, {"wc", "0", "available"}}))
		if got := strings.Contains(out.String(), styleBad.Render("dead")); got != c.want || ansi.Strip(out.String()) != "TYPE  DEAD  STATUS\nmail  3     dead\nwc    0     available\n" {
			t.Errorf("%d %v: %q", c.width, c.env, out)
		}
	}
}

// The cluster's errors are shown and do not end the command. A terminal shows the newest
// output in the place of the one before.
func TestWatch(t *testing.T) {
	for _, width := range []int{0, 80} {
		g, out := screenOf(width, map[string]string{"NO_COLOR": "1"})
		ctx, stop := context.WithCancel(t.Context())
		n := 0
		cmd := g.Watch(&cobra.Command{Use: "ls", RunE: func(*cobra.Command, []string) error {
			switch n++; n {
			case 2:
				return errors.New("no leader")
			case 4:
				stop()
			}
			return g.Printf("%d\n", n)
		}})
		if code := Execute(ctx, []string{"ls", "--watch=100ms"}, g, NewRoot(g, cmd)); code != ExitOK {
			t.Errorf("exit status %d", code)
		}
		if width == 0 {
			if out.String() != "1\nosqueue: no leader\n\n3\n" {
				t.Errorf("%q", out)
			}
			continue
		}
		screens := strings.Split(strings.TrimPrefix(out.String(), screenEmpty), screenHome)
		if len(screens) != 3 || !strings.HasPrefix(out.String(), screenEmpty) {
			t.Fatalf("%d screens: %q", len(screens), out)
		}
		for i, text := range []string{"1", "no leader", "3"} {
			if !strings.HasSuffix(screens[i], text+lineRest+"\n"+screenRest) {
				t.Errorf("screen %d: %q", i, screens[i])
			}
		}
	}
	g, out := screenOf(0, nil)
	if code := Execute(t.Context(), []string{"ls", "--watch=1ms"}, g, NewRoot(g, g.Watch(listing(g)))); code != ExitUsage || !strings.Contains(out.String(), "at least 100ms") {
		t.Errorf("%d %s", code, out)
	}
}

// An output that is higher than the terminal is cut, and the screen does not scroll: its last row stays empty.
func TestWatchFitsTheTerminal(t *testing.T) {
	for name, c := range map[string]struct {
		lines   int
		width   int // of each line
		note    string
		failed  error
		rows    int // on the screen
		shown   int
		endings []string
	}{
		"exactly":     {lines: 21, width: 5, rows: 23, shown: 21},
		"too high":    {lines: 60, width: 5, rows: 23, shown: 20, endings: []string{"… 40 more lines"}},
		"wide lines":  {lines: 60, width: 100, rows: 23, shown: 10, endings: []string{"… 50 more lines"}},
		"with a note": {lines: 60, width: 5, note: "there is more\n", rows: 23, shown: 19, endings: []string{"… 41 more lines", "there is more"}},
		"an error":    {lines: 22, width: 5, failed: errors.New("no leader"), rows: 23, shown: 18, endings: []string{"… 4 more lines", "", "no leader"}},
	} {
		g, out := screenOf(80, map[string]string{"NO_COLOR": "1"})
		ctx, stop := context.WithCancel(t.Context())
		n := 0
		cmd := g.Watch(&cobra.Command{Use: "ls", RunE: func(*cobra.Command, []string) error {
			if n++; n == 2 {
				stop()
				return nil
			}
			for range c.lines {
				if err := g.Printf("%s\n", strings.Repeat("x", c.width)); err != nil {
					return err
				}
			}
			_ = WritePlain(g.Err, c.note)
			return c.failed
		}})
		if code := Execute(ctx, []string{"ls", "--watch=100ms"}, g, NewRoot(g, cmd)); code != ExitOK {
			t.Errorf("%s: exit status %d", name, code)
		}
		text, clean := strings.CutSuffix(strings.TrimPrefix(out.String(), screenEmpty), screenRest)
		lines := strings.Split(strings.TrimSuffix(strings.ReplaceAll(text, lineRest, ""), "\n"), "\n")
		if got := rowsOf(strings.Join(lines, "\n"), 80); got > c.rows || !clean || !strings.HasPrefix(lines[0], "osqueue ls  every") {
			t.Errorf("%s: %d rows: %q", name, got, out)
		}
		if got := strings.Count(text, strings.Repeat("x", c.width)+lineRest); got != c.shown || !slices.Equal(lines[2+got:], c.endings) {
			t.Errorf("%s: %d lines, then %q", name, got, lines[2+got:])
		}
	}
}

// The pause of a type fits into a cell, with the time until its end.
func TestPauseCell(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	for want, p := range map[string]*v1.Pause{
		"paused":                  nil,
		"paused (down)":           {Reason: "down"},
		"paused for 1h58m (down)": {Reason: "down", Until: now.Add(118*time.Minute + 9*time.Second).UnixMilli()},
		"paused for 1m":           {Until: now.Add(-time.Second).UnixMilli()},
	} {
		if got := PauseCell(p, now); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Long cells are cut on a narrow screen, but no times, of which half says nothing.
func TestTimesAreNotCut(t *testing.T) {
	g, out := screenOf(60, nil)
	row := []string{"2026-11-26T15:09:36Z", "a-principal-with-a-long-name", "POST /v1/jobs/claim", "ok"}
	check(t, g.TableOf(Columns("TIME", "PRINCIPAL", "ACTION", "OUTCOME"), [][]string{row}))
	if !strings.Contains(out.String(), row[0]) || strings.Contains(out.String(), row[1]) {
		t.Errorf("%q", out)
	}
}

func TestPlain(t *testing.T) {
	for text, want := range map[string]string{
		"":                    "",
		"one\ttwo\nthree":     "one\ttwo\nthree",
		`C:\new "quoted" 'x'`: `C:\new "quoted" 'x'`,
		"é 漢字 العربية 👩\u200d💻\u00a0\ufffd": "é 漢字 العربية 👩\u200d💻\u00a0\ufffd",
		"\x1b]0;mine\a":                   `\x1b]0;mine\a`,
		"10%\r20%":                        `10%\r20%`,
		"a\b\v\f\x7f":                     `a\b\v\f\x7f`,
		"\u0085\u009b2J":                  `\u0085\u009b2J`,
		"\x9b2J \xff \xc3é":               `\x9b2J \xff \xc3é`,
		"\u2028\u2029":                    `\u2028\u2029`,
		"a\u202e\u202a\u2066\u2069\u200f": `a\u202e\u202a\u2066\u2069\u200f`,
		"\x00\x00\x00\x00":                `\x00\x00\x00\x00`,
		"a" + strings.Repeat("\x00", 4096) + "b" + strings.Repeat("\x1b", 5): `a\x00(×4096)b\x1b(×5)`,
		strings.Repeat("\xc3", 6) + "\xc3\xa9":                               `\xc3(×6)é`,
		"\n\n\n\n\n\n":                                                       "\n\n\n\n\n\n",
	} {
		got := plain(text)
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
		if again := plain(got); again != got {
			t.Errorf("%q is not plain: %q", got, again)
		}
	}
	if got := PlainLine("a\n\tb\x1b"); got != `a\n\tb\x1b` {
		t.Errorf("%q", got)
	}
}

// The cluster keeps payloads as they are, also with a name that occurs twice.
func TestJSONOfOddPayloads(t *testing.T) {
	var out strings.Builder
	g := &Globals{Out: &out}
	if err := g.WriteJSON(v1.Job{ID: "j", Payload: []byte(`{"a":1,"a":2}`)}); err != nil || !strings.Contains(out.String(), `"payload":{"a":1,"a":2}`) {
		t.Errorf("%s, %v", out.String(), err)
	}
}

// Documents for programs do not control a terminal either, and mean the same.
func TestDocumentsWithControlCharacters(t *testing.T) {
	text := "a\x1b\x7f\u0085\u009b2J\n\u202eb\u2028\u2029\u2066 : # 漢字"
	var out strings.Builder
	g := &Globals{Out: &out, format: formatJSON}
	check(t, g.WriteJSON(map[string]string{"x": text, text: "y"}))
	if plain(out.String()) != out.String() {
		t.Errorf("the output controls a terminal: %q", out.String())
	}
	var m map[string]string
	if err := json.Unmarshal([]byte(out.String()), &m); err != nil || m["x"] != text || m[text] != "y" {
		t.Errorf("it means %q, %v", m, err)
	}
}
