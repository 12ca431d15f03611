package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"hcclps/cmd/internal/program"
	"hcclps/p2p/sockets/certs"
)

const day = 24 * time.Hour

func certsCommand() *cli.Command {
	return &cli.Command{
		Name:  "certs",
		Usage: "make a CA for a cluster, and certificates of its processes",
		Description: "ps-server certs --out DIR --name s1 --hosts 10.0.0.5,node5\n" +
			"Writes s1.crt and s1.key into DIR, and first ca.crt and ca.key if they are not there yet. Nothing is overwritten.\n" +
			"Each process needs its own certificate and key and ca.crt; ca.key stays where certificates are made. Workers need no --hosts.",
		Flags: slices.Concat([]cli.Flag{
			&cli.StringFlag{Name: "out", Value: "certs", Usage: "`DIR` to write to"},
			&cli.StringFlag{Name: "name", Value: "server", Usage: "`NAME` of the process, also of its files"},
			&cli.StringSliceFlag{Name: "hosts", Usage: "names and addresses by which it is dialled; loopback's are always there"},
			&cli.StringFlag{Name: "cluster", Value: "hcclps", Usage: "`NAME` of the cluster, for a new CA", EnvVars: program.Env("cluster")},
			&cli.IntFlag{Name: "days", Value: 365, Usage: "how long the certificate is good; a new CA ten times as long"},
		}, program.ConfigFlags()),
		Action: makeCerts,
	}
}

func makeCerts(c *cli.Context) error {
	if printed, err := program.PrintedConfig(c); printed || err != nil {
		return err
	}
	if err := program.NoArguments(c); err != nil {
		return err
	}
	name, days := c.String("name"), c.Int("days")
	if name == "" || name == "ca" || strings.ContainsAny(name, "/\x00") {
		return program.Usage("--name %q: want a file's name, and not ca", name)
	}
	if days < 1 || days > 3650 {
		return program.Usage("--days %d: want 1 to 3650", days)
	}
	dir := c.String("out")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make folder of certificates: %w", err)
	}
	crt, key := filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	for _, path := range []string{crt, key} { // before a CA is made for nothing
		if _, err := os.Lstat(path); err == nil {
			return fmt.Errorf("%s is there already and is not overwritten: choose another --name or --out, or remove it", path)
		}
	}
	ca, err := caOf(c, dir, time.Duration(days)*10*day)
	if err != nil {
		return err
	}
	pair, err := ca.Issue(certs.Request{Name: name, Hosts: c.StringSlice("hosts"), Validity: time.Duration(days) * day})
	if err == nil {
		err = pair.Write(crt, key)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(c.App.Writer, "use: --tls-cert %s --tls-key %s --tls-ca %s\n", crt, key, filepath.Join(dir, "ca.crt"))
	return nil
}

// caOf is the CA in a folder, made if there is none.
func caOf(c *cli.Context, dir string, validity time.Duration) (*certs.Authority, error) {
	crt, key := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key")
	_, noCert := os.Lstat(crt)
	_, noKey := os.Lstat(key)
	switch {
	case noCert == nil && noKey == nil:
		pair, err := certs.Read(crt, key)
		if err != nil {
			return nil, err
		}
		return certs.Parse(pair)
	case noCert == nil || noKey == nil:
		return nil, fmt.Errorf("one of %s and %s is missing: put it back, or use another --out", crt, key)
	case !errors.Is(noCert, os.ErrNotExist):
		return nil, fmt.Errorf("look for CA: %w", noCert)
	}
	ca, err := certs.NewAuthority(c.String("cluster"), validity)
	if err == nil {
		err = ca.Pair().Write(crt, key)
	}
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(c.App.Writer, "new CA: %s; keep %s where certificates are made\n", crt, key)
	return ca, nil
}
