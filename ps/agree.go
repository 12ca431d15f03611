package ps

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"hcclps/ps/layout"
)

// agree refuses servers that share a name or were told different things.
func (s *Server) agree(seen map[string]who) error {
	var errs []error
	names := map[string]who{}
	me := s.whoami()
	for _, addr := range s.cfg.Peers {
		w, ok := seen[addr]
		if !ok {
			continue
		}
		if other, taken := names[w.Name]; taken {
			errs = append(errs, fmt.Errorf("two servers are named %q: %s (id %s) and %s (id %s): give each its own (Name, --name)", w.Name, other.Addr, other.ID, w.Addr, w.ID))
		}
		names[w.Name] = w
		if w.Addr != addr {
			errs = append(errs, fmt.Errorf("server %q at %s advertises %s: two servers claim one address, or the list is wrong", w.Name, addr, w.Addr))
		}
		if w.plan() != me.plan() {
			errs = append(errs, fmt.Errorf("servers were started differently: %q with %s; %q with %s", me.Name, me.plan(), w.Name, w.plan()))
		}
	}
	return errors.Join(errs...)
}

// disagreement is a reason why these servers can never form a cluster. All of
// them find the same one.
type disagreement struct {
	cluster string
	cause   error
}

func (d *disagreement) Error() string { return fmt.Sprintf("form cluster %q: %v", d.cluster, d.cause) }
func (d *disagreement) Unwrap() error { return d.cause }

// dispute keeps a disagreement until every server has had time to see it too.
type dispute struct {
	about *disagreement
	since time.Time
}

// settle passes other errors on at once, and a disagreement when it is old enough.
func (d *dispute) settle(err error, all bool) error {
	var now *disagreement
	switch {
	case errors.As(err, &now) && d.about == nil:
		d.about, d.since = now, time.Now()
	case errors.As(err, &now):
		if len(now.Error()) > len(d.about.Error()) { // more servers have come
			d.about = now
		}
	case err != nil:
		return err
	case all:
		d.about = nil
	}
	if d.about != nil && time.Since(d.since) >= formSay {
		return d.about
	}
	return nil
}

// apart refuses a list of servers on fewer hosts than a group has replicas,
// before anybody waits for them.
func (c Config) apart() error {
	hosts := map[string]bool{}
	for _, addr := range c.Peers {
		hosts[host(addr)] = true
	}
	if c.AllowSameHost || len(hosts) >= c.Replicas {
		return nil
	}
	return fmt.Errorf("servers %s: %d replicas of a group would share a host and die together: add servers on other hosts, or allow it (AllowSameHost, --allow-same-host)", strings.Join(c.Peers, ","), c.Replicas)
}

// found lays the cluster out.
func (s *Server) found(seen map[string]who) (formation, error) {
	cfg := layout.Config{Cluster: s.cfg.Cluster, Replicas: s.cfg.Replicas, Shards: s.cfg.Shards}
	for _, addr := range s.cfg.Peers {
		w := seen[addr]
		cfg.Members = append(cfg.Members, layout.Member{ID: w.ID, Name: w.Name, Addr: w.Addr})
	}
	l, err := layout.New(cfg)
	if err != nil {
		return formation{}, err
	}
	f := formation{Layout: l, Durability: s.cfg.Durability, Scratch: s.cfg.Scratch}
	if s.cfg.AllowSameHost {
		return f, nil
	}
	for g := range l.Groups() {
		hosts := map[string]string{}
		for _, id := range l.Replicas(g) {
			m, _ := l.Member(id)
			if other, taken := hosts[host(m.Addr)]; taken {
				return f, fmt.Errorf("replicas of %s on %s and %s would share the host %s and die together: add servers on other hosts, or allow it (AllowSameHost, --allow-same-host)", layout.GroupName(g), other, m.Addr, host(m.Addr))
			}
			hosts[host(m.Addr)] = m.Addr
		}
	}
	return f, nil
}

// affordable refuses a cluster that would leave this server without memory,
// before it is formed. An address stands for who will be there.
func (s *Server) affordable() error {
	cfg := layout.Config{Replicas: s.cfg.Replicas, Shards: s.cfg.Shards}
	for _, addr := range s.cfg.Peers {
		cfg.Members = append(cfg.Members, layout.Member{ID: addr, Name: addr, Addr: addr})
	}
	l, err := layout.New(cfg)
	if err == nil {
		_, err = s.memory(formation{Layout: l, Durability: s.cfg.Durability, Scratch: s.cfg.Scratch}, s.cfg.Advertise)
	}
	return err
}

// belongs says why a formation is not this server's.
func (s *Server) belongs(f formation) error {
	if f.Cluster != s.cfg.Cluster {
		return fmt.Errorf("formation is of cluster %q, this server belongs to %q", f.Cluster, s.cfg.Cluster)
	}
	if slices.ContainsFunc(f.Members, func(m layout.Member) bool { return m.ID == s.self.ID }) {
		return nil
	}
	for _, m := range f.Members {
		if m.Name == s.cfg.Name || m.Addr == s.cfg.Advertise {
			return fmt.Errorf("cluster %q knows server %q at %s by the id %s; the data in %s is of %s: the server's old data directory is missing, that id is retired and its groups go on with the others", f.Cluster, m.Name, m.Addr, m.ID, s.cfg.Dir, s.self.ID)
		}
	}
	return fmt.Errorf("cluster %q was formed without server %q at %s: its members are %s", f.Cluster, s.cfg.Name, s.cfg.Advertise, names(f.Layout))
}

func names(l layout.Layout) string {
	var b strings.Builder
	for i, m := range l.Members {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s (%s, id %s)", m.Name, m.Addr, m.ID)
	}
	return b.String()
}
