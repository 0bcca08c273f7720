package history

import "slices"

// FaultSpan is a fault while it lasts. It is safe for concurrent use.
type FaultSpan struct {
	r     *Recorder
	fault Fault
	ended bool
}

// Fault notes that a fault begins. It has not hit until Hit says so; it is in the
// record once it has ended.
func (r *Recorder) Fault(name, target string) *FaultSpan {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := &FaultSpan{r: r, fault: Fault{Name: name, Target: target, Begin: r.Now()}}
	r.open = append(r.open, f)
	return f
}

// Hit notes the sign by which the fault is known to have taken effect. Of several,
// all are kept.
func (f *FaultSpan) Hit(proof string) {
	f.r.mu.Lock()
	defer f.r.mu.Unlock()
	if f.fault.Hit = true; f.fault.Proof != "" {
		proof = f.fault.Proof + "; " + proof
	}
	f.fault.Proof = proof
}

// Missed notes why the fault is not known to have taken effect. It stays without
// a hit, unless Hit says otherwise.
func (f *FaultSpan) Missed(why string) {
	f.r.mu.Lock()
	defer f.r.mu.Unlock()
	if !f.fault.Hit {
		f.fault.Proof = why
	}
}

// Loses notes that what is not in the bucket may be gone from here on.
func (f *FaultSpan) Loses() {
	f.r.mu.Lock()
	defer f.r.mu.Unlock()
	f.fault.Loses = true
}

// HasHit reports whether there was a sign.
func (f *FaultSpan) HasHit() bool {
	f.r.mu.Lock()
	defer f.r.mu.Unlock()
	return f.fault.Hit
}

// End notes that the fault is over: healed, or done. Ended twice, it ended the
// first time.
func (f *FaultSpan) End() {
	f.r.mu.Lock()
	defer f.r.mu.Unlock()
	f.r.endFault(f)
}

// endFault puts the fault into the record. The lock is held.
func (r *Recorder) endFault(f *FaultSpan) {
	if f.ended {
		return
	}
	f.ended, f.fault.End = true, r.Now()
	r.open = slices.DeleteFunc(r.open, func(o *FaultSpan) bool { return o == f })
	r.all.Faults = append(r.all.Faults, f.fault)
	r.write(line{Fault: &f.fault})
	r.flush()
}
