// Package admin is the node daemon's API over a unix socket: the shapes, the server and the client.
//
// Promise: the CLI and the dashboard see the same numbers, because both come from the same Reader through the
// same handlers. Reads change nothing; a write (POST /v1/reload) is done only for a peer whose kernel-vouched
// uid is 0. The socket is 0600. A request is refused before it is understood when it is too large, has an
// unknown or repeated parameter, or the wrong method; a refusal is JSON {"error","hint","kind"}.
//
// Ownership: Serve closes the listener it is given. A Client keeps no connection that needs closing.
// Locks: none of its own; a Reader's methods are called concurrently.
// Failure: a daemon that is not there is errkind.Unavailable with what to type; a socket of somebody else's is
// errkind.Denied. An error keeps its kind and its hint over the socket, and nothing else: it is text there.
// Not here: authentication beyond the peer's uid, streaming, TLS, history on disk.
package admin
