// Package sockets is the network of real sockets: it listens and dials, and says who is let in. It knows nothing of what goes over the
// connections.
//
// # Addresses
//
// "host:port" is TCP, "unix:/path" a Unix socket. A server may name its host by an interface or a network (address.go). Within a host servers
// are reached by an abstract Unix socket where the network knows its cluster's name (local.go): that halves the CPU a byte costs.
//
// # Who is let in
//
// A [Network] with certificates or a token admits a dialler before anything else is read, within 3 s and a few hundred bytes (door.go): TLS 1.3 in
// which both sides show a certificate of the cluster's CA, and a challenge by which both prove that they know the token (token.go). A
// refusal reaches the other side as text that says what to do. Package certs makes the certificates.
package sockets
