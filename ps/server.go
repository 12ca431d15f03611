// Package ps is a server of the cluster: one listener, the meta group and the
// shard groups it replicates, formation, restart and status.
package ps

import (
	"context"
	"errors"

	"hcclps/ps/layout"
	"hcclps/ps/wire"
)

var errUnbuilt = errors.New("ps: not built yet")

// Server is one server of a cluster.
type Server struct{}

// New checks the configuration. It starts nothing and touches no file.
func New(cfg Config) (*Server, error) { return nil, errUnbuilt }

// Run serves until ctx ends (nil) or the server fails (the cause).
func (s *Server) Run(ctx context.Context) error { return errUnbuilt }

// Ready returns when the cluster is formed and every group this server replicates has a leader.
func (s *Server) Ready(ctx context.Context) error { return errUnbuilt }

// Status is what this server sees.
func (s *Server) Status(waiting bool) wire.ServerStatus { return wire.ServerStatus{} }

// Layout is the layout in force; its Epoch is 0 before formation.
func (s *Server) Layout() layout.Layout { return layout.Layout{} }

// Crash makes Run end as a kill -9 would: nothing is handed over or written any more. A test knob: a new
// Server on the same directories goes on from there.
func (s *Server) Crash() {}
