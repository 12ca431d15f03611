package ps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	"hcclps/p2p/link"
	"hcclps/ps/wire"
)

// Formation. The server whose address is first in the list founds the cluster:
// it waits until every server has said who it is, lays the groups out, writes
// that down and tells the others, who write it down before they answer. Servers
// that wait ask the others meanwhile: one that was formed already passes the
// formation on. So it may be killed anywhere in between.

const (
	formPause = 250 * time.Millisecond
	formAsk   = 2 * time.Second
	formSay   = 5 * time.Second
)

// who is a server's answer to KindIdentify.
type who struct {
	identity
	Addr       string     `json:"addr"`
	Peers      []string   `json:"peers"`
	Replicas   int        `json:"replicas"`
	Shards     int        `json:"shards"`
	Durability string     `json:"durability"`
	Scratch    bool       `json:"scratch"`
	Formation  *formation `json:"formation,omitempty"`
}

func (s *Server) whoami() who {
	w := who{
		identity: s.self, Addr: s.cfg.Advertise, Peers: s.cfg.Peers, Replicas: s.cfg.Replicas,
		Shards: s.cfg.Shards, Durability: s.cfg.Durability, Scratch: s.cfg.Scratch,
	}
	if f, ok := s.formed(); ok {
		w.Formation = &f
	}
	return w
}

// plan is what all servers must have been told the same.
func (w who) plan() string {
	return fmt.Sprintf("servers %s, %d replicas, %d shards, %s, scratch %v", strings.Join(w.Peers, ","), w.Replicas, w.Shards, w.Durability, w.Scratch)
}

// form returns when this server knows how the cluster was formed.
func (s *Server) form(ctx context.Context) error {
	if _, ok := s.formed(); ok {
		return nil
	}
	if err := s.cfg.apart(); err != nil {
		return err
	}
	deadline := time.Now().Add(s.cfg.FormTimeout)
	tick := time.NewTicker(formPause)
	defer tick.Stop()
	var said time.Time
	var argument dispute
	for {
		seen, missing := s.askPeers(ctx)
		done, err := s.settle(ctx, seen, len(missing) == 0)
		if err = argument.settle(err, len(missing) == 0); err != nil || done {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("form cluster %q: after %v: %w", s.cfg.Cluster, s.cfg.FormTimeout, s.lacking(missing))
		}
		if time.Since(said) > formSay {
			said = time.Now()
			s.log.Info("waiting for the cluster to form", "missing", s.lacking(missing))
		}
		select {
		case <-s.formedCh:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// lacking says whom formation waits for, and why.
func (s *Server) lacking(missing map[string]error) error {
	var errs []error
	for _, addr := range s.cfg.Peers {
		if err := missing[addr]; err != nil {
			errs = append(errs, fmt.Errorf("server %s: %w", addr, err))
		}
	}
	if len(errs) == 0 {
		errs = append(errs, fmt.Errorf("the founder %s has not formed it yet", s.cfg.Peers[0]))
	}
	return errors.Join(errs...)
}

// askPeers asks every server in the list who it is; missing says why some have not answered.
func (s *Server) askPeers(ctx context.Context) (seen map[string]who, missing map[string]error) {
	ctx, cancel := context.WithTimeout(ctx, formAsk)
	defer cancel()
	seen, missing = map[string]who{s.cfg.Advertise: s.whoami()}, map[string]error{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, addr := range s.cfg.Peers {
		if addr == s.cfg.Advertise {
			continue
		}
		wg.Go(func() {
			var w who
			err := s.tell(ctx, addr, "", wire.KindIdentify, struct{}{}, &w)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				missing[addr] = err
			} else {
				seen[addr] = w
			}
		})
	}
	wg.Wait()
	return seen, missing
}

// tell sends a server a control request; reply is filled from the answer's body unless nil.
func (s *Server) tell(ctx context.Context, addr, to string, kind wire.Kind, fields, reply any) error {
	head, err := wire.Control(kind, fields)
	if err != nil {
		return err
	}
	call := link.Call{To: to, Head: head, Priority: link.Push}
	if len(head) > link.MaxHead { // a large layout travels as a body
		call.Head, call.Body = head[:2], [][]byte{head[2:]}
	}
	got, err := s.client.Call(ctx, addr, call)
	if err != nil {
		return err
	}
	a, err := wire.DecodeAnswer(got.Head)
	if err != nil {
		return fmt.Errorf("answer of %s: %w", addr, err)
	}
	if a.Status != wire.OK {
		return fmt.Errorf("%v: %s", a.Status, a.Detail)
	}
	if reply == nil {
		return nil
	}
	if err := json.Unmarshal(got.Body, reply); err != nil {
		return fmt.Errorf("answer of %s: %w", addr, err)
	}
	return nil
}

// settle looks at who answered: it adopts a formation that is there already or,
// on the founder with all servers present, makes one. Every server checks that
// one can be made.
func (s *Server) settle(ctx context.Context, seen map[string]who, all bool) (done bool, err error) {
	for _, addr := range s.cfg.Peers {
		w, ok := seen[addr]
		if !ok || w.Formation == nil {
			continue
		}
		return true, s.adopt(ctx, *w.Formation, "server "+w.Name+" at "+addr)
	}
	if err := s.agree(seen); err != nil {
		return false, &disagreement{s.cfg.Cluster, err}
	}
	if !all {
		return false, nil
	}
	f, err := s.found(seen)
	if err != nil {
		return false, &disagreement{s.cfg.Cluster, err}
	}
	if s.cfg.Peers[0] != s.cfg.Advertise {
		return false, nil
	}
	if err := s.adopt(ctx, f, "this server, the founder"); err != nil {
		return false, err
	}
	for _, m := range f.Members {
		if m.ID == s.self.ID {
			continue
		}
		say, cancel := context.WithTimeout(ctx, formAsk)
		if err := s.tell(say, m.Addr, m.ID, wire.KindForm, f, nil); err != nil {
			s.log.Warn("formation not delivered; the server will ask for it", "server", m.Name, "addr", m.Addr, "err", err)
		}
		cancel()
	}
	return true, nil
}

// adopt writes a formation down and puts it in force here. A second one is
// refused unless it is the same.
func (s *Server) adopt(ctx context.Context, f formation, from string) error {
	if err := f.Validate(); err != nil {
		return fmt.Errorf("formation from %s: %w", from, err)
	}
	if err := s.belongs(f); err != nil {
		return err
	}
	select { // not the mutex: a commit to the store waits for the disk
	case s.adopting <- struct{}{}:
		defer func() { <-s.adopting }()
	case <-ctx.Done():
		return fmt.Errorf("formation from %s: %w", from, context.Cause(ctx))
	}
	if have := s.formation.Load(); have != nil {
		if !reflect.DeepEqual(*have, f) {
			return fmt.Errorf("cluster %q is formed already, with members %s; %s says %s", s.cfg.Cluster, names(have.Layout), from, names(f.Layout))
		}
		return nil
	}
	if err := save(s.store, keyFormation, f); err != nil {
		return err
	}
	s.formation.Store(&f)
	close(s.formedCh)
	s.log.Info("cluster formed", "by", from, "members", names(f.Layout), "shards", len(f.Shards), "replicas", len(f.Meta), "durability", f.durable())
	return nil
}
