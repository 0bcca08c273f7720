package history

import "slices"

// FaultSpan is a fault in progress. It is safe for concurrent use.
type FaultSpan struct {
	r     *Recorder
	fault Fault
	ended bool
}

// Fault records the beginning of a fault. It has not hit until Hit is called. It is in the
// record once it has ended.
func (r *Recorder) Fault(name, target string) *FaultSpan {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := &FaultSpan{r: r, fault: Fault{Name: name, Target: target, Begin: r.Now()}}
	r.open = append(r.open, f)
	return f
}

// Hit records a proof that the fault has taken effect. It keeps all proofs.
func (f *FaultSpan) Hit(proof string) {
	f.r.mu.Lock()
	defer f.r.mu.Unlock()
	if f.fault.Hit = true; f.fault.Proof != "" {
		proof = f.fault.Proof + "; " + proof
	}
	f.fault.Proof = proof
}

// Missed records why the fault is not known to have taken effect. The fault stays without a
// hit, unless Hit is called.
func (f *FaultSpan) Missed(why string) {
	f.r.mu.Lock()
	defer f.r.mu.Unlock()
	if !f.fault.Hit {
		f.fault.Proof = why
	}
}

// Loses records that data which is not in the bucket may be lost from here on.
func (f *FaultSpan) Loses() {
	f.r.mu.Lock()
	defer f.r.mu.Unlock()
	f.fault.Loses = true
}

// HasHit reports whether Hit was called.
func (f *FaultSpan) HasHit() bool {
	f.r.mu.Lock()
	defer f.r.mu.Unlock()
	return f.fault.Hit
}

// End records that the fault is over: healed, or completed. A second call has no effect.
func (f *FaultSpan) End() {
	f.r.mu.Lock()
	defer f.r.mu.Unlock()
	f.r.endFault(f)
}

// endFault puts the fault into the record. The caller holds the lock.
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
