package bucket

import (
	"fmt"
	"strings"

	"osqueue/cmd/osqueue/view"
)

// namesMost bounds the number of names in a printed command.
const namesMost = 12

// nextSteps describes the result and the next steps of the user.
func (r *restoration) nextSteps(p *restoreReport) string {
	var b strings.Builder
	w := p.Written
	if w == nil {
		b.WriteString("Nothing was written: this is a dry run.\n")
		if p.Refused != "" {
			fmt.Fprintf(&b, "Without --dry-run it would be refused: %s.\n", p.Refused)
		}
		return b.String()
	}
	fmt.Fprintf(&b, "Written to %s: %d jobs, LSN %s, lineage %s.\n", r.to, w.Jobs, w.LSN, w.Lineage)
	if w.Copy != "" {
		fmt.Fprintf(&b, "The previous document is kept as %s; to restore it:\n  osqueue restore --from %s --document %s --to %s --replace\n",
			w.Copy, view.ShellWord(r.to), w.Copy, view.ShellWord(r.to))
	}
	b.WriteString("\n" + r.startText())
	if r.resume {
		b.WriteString("Types and schedules are not paused: jobs run as soon as a cluster has started.\n")
		return b.String()
	}
	b.WriteString(resumeText(&p.Paused))
	return b.String()
}

// startText describes how to start a cluster on the written document.
func (r *restoration) startText() string {
	switch {
	case r.branch:
		return fmt.Sprintf("Try it on this machine:\n  osqueue dev --bucket %s\n"+
			"or start nodes with empty data directories:\n  osqueue serve --bucket %s --data EMPTY-DIRECTORY …\n\n", view.ShellWord(r.to), view.ShellWord(r.to))
	case r.inPlace() || r.replace:
		return fmt.Sprintf("Nodes with the previous state refuse the new document. Move all of their data directories away,\n"+
			"and start them with empty ones on the same bucket:\n  osqueue serve --bucket %s --data EMPTY-DIRECTORY …\n\n", view.ShellWord(r.to))
	}
	return fmt.Sprintf("Start a cluster on it, with empty data directories; nodes that have a state refuse the document:\n"+
		"  osqueue serve --bucket %s --data EMPTY-DIRECTORY …\n\n", view.ShellWord(r.to))
}

// resumeText describes how to end the pause.
func resumeText(p *pausedNames) string {
	if len(p.Types)+len(p.Crons) == 0 {
		return "The queue has no type or schedule to pause.\n"
	}
	var b strings.Builder
	b.WriteString("All types and schedules are paused. Check the queue with osqueue job ls and osqueue cron ls, then run:\n")
	resumeCommand(&b, "queue", p.Types)
	resumeCommand(&b, "cron", p.Crons)
	b.WriteString("Types and schedules that were paused before stay paused.\n")
	return b.String()
}

func resumeCommand(b *strings.Builder, kind string, names []string) {
	switch n := len(names); {
	case n > namesMost:
		fmt.Fprintf(b, "  osqueue %s resume %s …\n    (%d names; --json has all of them)\n", kind, view.ShellWords(names[:namesMost]), n)
	case n > 0:
		fmt.Fprintf(b, "  osqueue %s resume %s\n", kind, view.ShellWords(names))
	}
}
