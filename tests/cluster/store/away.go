package store

// Away says how a store cannot be reached.
type Away int

// The ways.
const (
	Here    Away = iota
	Refuses      // nobody listens
	Hangs        // connections are taken, and nothing comes back
)

// SetAway takes the store away, in that way, or brings it back. Connections that
// there are break.
func (p *Proxy) SetAway(a Away) {
	p.setHanging(a == Hangs)
	if a == Refuses {
		p.gate.close()
		return
	}
	p.open()
}

func (p *Proxy) open() {
	if err := p.gate.open(); err != nil {
		p.t.Errorf("the store does not come back: %v", err)
	}
}

// Behave ends all faults and forgets what was ordered. What is late may still
// come; Store.Settle waits for it.
func (p *Proxy) Behave() {
	p.behave()
	p.open()
}
