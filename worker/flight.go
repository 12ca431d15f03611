package worker

import (
	"fmt"
	"path/filepath"
	"strings"

	"hcclps/internal/trace"
	"hcclps/p2p/collective"
)

// Flight is the last collective operations of this worker; false where workers do not bring gradients together themselves.
func (c *Client) Flight() (trace.Flight, bool) {
	if c.local == nil || c.local.peers == nil {
		return trace.Flight{}, false
	}
	return c.local.peers.flight(), true
}

// WriteFlight writes it into Config.Flights, and returns the file's path; why is for whoever reads it. Without a folder, or operations, it does nothing.
func (c *Client) WriteFlight(why string) (path string, err error) {
	if c.local == nil || c.local.peers == nil {
		return "", nil
	}
	return c.local.peers.writeFlight(why)
}

// current is the group of the present epoch.
func (p *peers) current() *collective.Group {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.group
}

func (p *peers) flight() (f trace.Flight) {
	if g := p.current(); g != nil {
		f = g.Flight()
	}
	f.Process = p.cfg.Worker
	return f
}

func (p *peers) writeFlight(why string) (path string, err error) {
	f := p.flight()
	if f.Why = why; p.cfg.Flights == "" || len(f.Operations) == 0 {
		return "", nil
	}
	name := fmt.Sprintf("hcclps-flight-%s-%s-%d.json", p.cfg.Job, p.cfg.Worker, f.Operations[len(f.Operations)-1].Epoch)
	path = filepath.Join(p.cfg.Flights, strings.ReplaceAll(name, string(filepath.Separator), "_"))
	return path, f.WriteFile(path)
}

// failed leaves the flight of a group that has failed. What is wrong with that is no reason to fail as well.
func (p *peers) failed(cause error) {
	path, err := p.writeFlight(cause.Error())
	switch {
	case err != nil:
		p.log.Warn("the last operations could not be written", "err", err)
	case path != "":
		p.log.Warn("the last operations are written: ps-worker profile reads those of all ranks", "file", path)
	}
}
