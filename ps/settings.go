package ps

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"hcclps/ps/raftlog"
)

// ConfigError is what Run returns when a Config contradicts what the data
// directory recorded, or is not good together with it.
type ConfigError struct{ Err error }

// Error says what is wrong with which field.
func (e *ConfigError) Error() string { return e.Err.Error() }

// Unwrap gives the faults.
func (e *ConfigError) Unwrap() error { return e.Err }

// settings are what a server was told, written down so that a later start needs
// its data directory only. What all servers agreed on is in the formation, and
// counts more.
type settings struct {
	Listen        string   `json:"listen"`
	Advertise     string   `json:"advertise"`
	Peers         []string `json:"peers"`
	Replicas      int      `json:"replicas"`
	Scratch       bool     `json:"scratch,omitempty"`
	Shards        int      `json:"shards"` // 0: by the number of servers
	Durability    string   `json:"durability"`
	Memory        int64    `json:"memory"` // 0: what the machine has free
	LogBudget     int64    `json:"log_budget"`
	AllowSameHost bool     `json:"allow_same_host,omitempty"`
	Insecure      bool     `json:"insecure,omitempty"`
	TLSCert       string   `json:"tls_cert,omitempty"` // files, not what is in them
	TLSKey        string   `json:"tls_key,omitempty"`
	TLSCA         string   `json:"tls_ca,omitempty"`
	TokenFile     string   `json:"token_file,omitempty"`

	Checkpoint CheckpointConfig `json:"checkpoint,omitzero"`
	Restore    string           `json:"restore,omitempty"`

	RestoreWorld int `json:"restore_world,omitempty"`
}

func (c Config) settings() settings {
	return settings{
		Listen: c.Listen, Advertise: c.Advertise, Peers: c.Peers, Replicas: c.Replicas, Scratch: c.Scratch, Shards: c.Shards,
		Durability: c.Durability, Memory: c.Memory, LogBudget: c.LogBudget, AllowSameHost: c.AllowSameHost, Insecure: c.Insecure,
		TLSCert: c.TLSCert, TLSKey: c.TLSKey, TLSCA: c.TLSCA, TokenFile: c.TokenFile,
		Checkpoint: c.Checkpoint, Restore: c.Restore, RestoreWorld: c.RestoreWorld,
	}
}

// agreed puts what the cluster was formed with in place of what this server was told.
func (s settings) agreed(f formation, self string) settings {
	if m, ok := f.Member(self); ok {
		s.Advertise, s.Listen = m.Addr, cmp.Or(s.Listen, m.Addr)
	}
	s.Peers = nil
	for _, m := range f.Members {
		s.Peers = append(s.Peers, m.Addr)
	}
	s.Replicas, s.Shards, s.Durability, s.Scratch = len(f.Meta), len(f.Shards), f.Durability, f.Scratch
	return s
}

// or fills in what c does not say.
func (c Config) or(s settings) Config {
	c.Listen, c.Advertise, c.Durability = cmp.Or(c.Listen, s.Listen), cmp.Or(c.Advertise, s.Advertise), cmp.Or(c.Durability, s.Durability)
	c.Replicas, c.Shards = cmp.Or(c.Replicas, s.Replicas), cmp.Or(c.Shards, s.Shards)
	c.Memory, c.LogBudget = cmp.Or(c.Memory, s.Memory), cmp.Or(c.LogBudget, s.LogBudget)
	c.Scratch, c.AllowSameHost, c.Insecure = c.Scratch || s.Scratch, c.AllowSameHost || s.AllowSameHost, c.Insecure || s.Insecure
	c.TLSCert, c.TLSKey, c.TLSCA, c.TokenFile = cmp.Or(c.TLSCert, s.TLSCert), cmp.Or(c.TLSKey, s.TLSKey), cmp.Or(c.TLSCA, s.TLSCA), cmp.Or(c.TokenFile, s.TokenFile)
	if len(c.Peers) == 0 {
		c.Peers = s.Peers
	}
	c.Checkpoint, c.Restore = c.Checkpoint.or(s.Checkpoint), cmp.Or(c.Restore, s.Restore)
	c.RestoreWorld = cmp.Or(c.RestoreWorld, s.RestoreWorld)
	return c
}

// contradicts reports what cannot be changed any more in a cluster that was formed.
func (c Config) contradicts(s settings) error {
	var errs []error
	differ := func(what string, was, is any) {
		if was, is := fmt.Sprint(was), fmt.Sprint(is); was != is {
			errs = append(errs, fmt.Errorf("%s: the cluster was formed with %s, now %s is given: leave it out, or use another data directory", what, was, is))
		}
	}
	differ("address of this server (Advertise, --advertise)", s.Advertise, c.Advertise)
	differ("servers (Peers, --servers)", strings.Join(s.Peers, ","), strings.Join(c.Peers, ","))
	differ("replicas (Replicas, --replicas)", s.Replicas, c.Replicas)
	differ("scratch (Scratch, --replicas 0)", s.Scratch, c.Scratch)
	differ("shards (Shards, --shards)", s.Shards, c.Shards)
	differ("durability (Durability, --durability)", s.Durability, c.Durability)
	differ("checkpoint to begin with (Restore, --restore)", cmp.Or(s.Restore, "none"), cmp.Or(c.Restore, "none"))
	return errors.Join(errs...)
}

// recorded completes the configuration by what the store says of earlier
// starts. Before the cluster is formed, a start that gives Peers begins anew.
// Listen and the budgets may be changed at any start.
func (c Config) recorded(store *raftlog.Store, id identity, f *formation) (Config, error) {
	var was settings
	found, err := load(store, keySettings, &was)
	if err != nil {
		return c, err
	}
	c.Cluster, c.Name = cmp.Or(c.Cluster, id.Cluster), cmp.Or(c.Name, id.Name)
	switch {
	case f != nil:
		was = was.agreed(*f, id.ID)
		c = c.or(was)
	case found && len(c.Peers) == 0:
		c = c.or(was)
	}
	c, err = c.reachable()
	if c = c.withDefaults(); f != nil {
		err = errors.Join(err, c.contradicts(was))
	}
	if err == nil && c.sockets {
		c.Network, err = c.openSockets()
	}
	if err = errors.Join(err, c.faults()); err != nil {
		return c, &ConfigError{fmt.Errorf("configure server %q in %s: %w", c.Name, c.Dir, err)}
	}
	return c, nil
}

// remember writes the settings down.
func (c Config) remember(store *raftlog.Store) error {
	var was settings
	found, err := load(store, keySettings, &was)
	if err != nil {
		return err
	}
	is := c.settings()
	if found && slices.Equal(was.Peers, is.Peers) && fmt.Sprint(was) == fmt.Sprint(is) {
		return nil
	}
	return save(store, keySettings, is)
}
