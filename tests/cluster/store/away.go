package store

// Away says how a store cannot be reached.
type Away int

// The ways.
const (
	Here    Away = iota
	Refuses      // connections are refused
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

// Behave ends all faults and forgets the ordered ones. Late requests may still arrive;
// Store.Settle waits for them.
func (p *Proxy) Behave() {
	p.behave()
	p.open()
}
