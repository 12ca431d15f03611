package program

import (
	"log/slog"
	"net"
	"strings"

	"github.com/urfave/cli/v2"

	"hcclps/p2p/backend"
	"hcclps/p2p/link"
)

// NetworkFlags are on every command that connects to servers, and on serve.
func NetworkFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "tls-cert", Usage: "certificate of this process, PEM `FILE`; with --tls-key and --tls-ca every TCP connection is TLS 1.3", EnvVars: Env("tls-cert")},
		&cli.StringFlag{Name: "tls-key", Usage: "its key, PEM `FILE`", EnvVars: Env("tls-key")},
		&cli.StringFlag{Name: "tls-ca", Usage: "the cluster's CA, PEM `FILE`", EnvVars: Env("tls-ca")},
		&cli.StringFlag{Name: "token-file", Usage: "`FILE` of a secret that every process of the cluster must know", EnvVars: Env("token-file")},
	}
}

// Network is what NetworkFlags describe, to reach the servers of a cluster. What
// is wrong with the files is a failure, which flags are missing is a mistake.
func Network(c *cli.Context, cluster string, log *slog.Logger) (link.Network, error) {
	if err := CheckNetwork(c); err != nil {
		return nil, err
	}
	return backend.OpenSockets(Sockets(c, cluster, log))
}

// Sockets are the choices of NetworkFlags. Who asks for tcp by name gets it
// within a host too.
func Sockets(c *cli.Context, cluster string, log *slog.Logger) backend.Sockets {
	if c.String("transport") == string(backend.TCP) {
		cluster = ""
	}
	return backend.Sockets{
		TLSCert: c.String("tls-cert"), TLSKey: c.String("tls-key"), TLSCA: c.String("tls-ca"),
		TokenFile: c.String("token-file"), Local: cluster, Logger: log,
	}
}

// CheckNetwork finds mistakes in NetworkFlags.
func CheckNetwork(c *cli.Context) error {
	var set, missing []string
	for _, name := range []string{"tls-cert", "tls-key", "tls-ca"} {
		if c.String(name) == "" {
			missing = append(missing, "--"+name)
		} else {
			set = append(set, "--"+name)
		}
	}
	if len(set) > 0 && len(missing) > 0 {
		return Usage("TLS takes all three files, ps-server certs makes them: give %s beside %s", Sorted(missing), Sorted(set))
	}
	return nil
}

// CheckServers finds addresses in --servers that are none.
func CheckServers(c *cli.Context) error {
	for _, addr := range c.StringSlice("servers") {
		if strings.HasPrefix(addr, "unix:") {
			continue
		}
		_, port, err := net.SplitHostPort(addr)
		if err == nil {
			_, err = net.DefaultResolver.LookupPort(c.Context, "tcp", port)
		}
		if err != nil {
			return Usage("--servers %s: %w", addr, err)
		}
	}
	return nil
}
