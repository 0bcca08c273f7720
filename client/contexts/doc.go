// Package contexts keeps the ways to reach clusters: the servers, the CA and the access token
// of each, under a name, in files of the user.
//
// # Problem
//
// A command needs servers, a CA and a token. In the environment they must be set in every
// shell; in flags the token is visible to other users. A context holds the three, so that a
// command needs at most its name.
//
// # Files
//
//	$XDG_CONFIG_HOME/osqueue/      ~/.config/osqueue/ without XDG_CONFIG_HOME; 0700
//	    contexts/NAME.json         a Context as JSON, 0600
//	    current                    the name of the current context
//
// Each context is a file of its own: two programs that change different contexts do not
// overwrite each other. The clients for Python and JavaScript read the same files.
//
// # Choice
//
// Resolve takes, in this order: values of flags, the environment (OSQUEUE_SERVERS, OSQUEUE_CA,
// OSQUEUE_TOKEN), and the context. The context is the one of the flag or of OSQUEUE_CONTEXT,
// else the current one, else the one that is called dev, which "osqueue dev" makes.
//
// A token must not reach the servers of another cluster. So a context that is not named
// explicitly counts only if the servers come from it too, or are all servers of it.
//
// # Failure stance
//
// Files are replaced by a rename, so that a reader sees the old or the new one and a crash
// leaves no half. A context that is named and cannot be read is an error. A file that others
// may read is refused: its token must be taken as known to them.
package contexts
