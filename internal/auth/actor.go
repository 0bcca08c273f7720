package auth

// Actor names the principal in events: "token ID (NAME)", or its ID. It has at most
// fsm.ActorMax bytes of UTF-8, and no secret.
func (p *Principal) Actor() string {
	if p.actor != "" {
		return p.actor
	}
	return boundedActor(p.ID)
}
