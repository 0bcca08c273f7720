package v1

// The words for two statuses that people read and write. The wire has older names
// for them, on which programs depend.
const (
	WordAvailable = "available" // StatusUnclaimed
	WordRunning   = "running"   // StatusInProgress
)

// StatusWord returns the word that people read for a status of the wire.
func StatusWord(status string) string {
	switch status {
	case StatusUnclaimed:
		return WordAvailable
	case StatusInProgress:
		return WordRunning
	}
	return status
}

// StatusOf returns the status of the wire for a word. Names of the wire, and unknown
// words, stay as they are.
func StatusOf(word string) string {
	switch word {
	case WordAvailable:
		return StatusUnclaimed
	case WordRunning:
		return StatusInProgress
	}
	return word
}
