package backend_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"sync"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/backend"
	"hcclps/p2p/inproc"
	"hcclps/p2p/link"
	"hcclps/p2p/sockets"
)

// soaked are the ways in which bulk goes.
func soaked() []string { return []string{"inproc", "shm", "unix", "tcp", "tls", "hccl"} }

// site says how a station is reached, and what it is made of. It is given to other processes as JSON.
type site struct {
	Transport string
	Dir       string // of sockets and certificates
	ID        string // "stays" or "dies"
	Device    string
	Addr      string // "": any free one
	Peer      string // address of the other station
	Role      string // "": a station; else one end of a pair that is killed, see killed_test.go

	meeting *meeting // of inproc
}

// station is one of two processes that call each other.
type station struct {
	site
	net    *cutter
	bulk   *backend.Bulk // nil for inproc
	server *link.Server
	client *link.Client
	ln     net.Listener
	load   *load
}

// newStation makes a station that listens already.
func newStation(ctx context.Context, s site, l *load) (*station, error) {
	st := &station{site: s, net: &cutter{}, load: l}
	var pair link.PairFunc
	var upgrade link.UpgradeFunc
	var err error
	if s.Transport == "inproc" {
		st.net.Network, pair = s.meeting, s.meeting.pair
	} else {
		if st.net.Network, err = s.sockets(); err != nil {
			return nil, err
		}
		cfg := backend.Config{Transport: backend.TCP}
		switch s.Transport {
		case "shm":
			cfg = backend.Config{Transport: backend.SHM, NoFallback: true}
		case "hccl":
			cfg = backend.Config{Transport: backend.HCCL, Device: s.Device}
		}
		if st.bulk, err = backend.NewBulk(cfg); err != nil {
			return nil, err
		}
		pair, upgrade = st.bulk.Pair, st.bulk.Upgrade()
	}
	// Little scratch memory, so that it is soon as much as it will ever be.
	limits := link.Limits{Stripes: 2, Scratch: 8 << 20, Stall: 3 * time.Second}
	st.server, err = link.NewServer(link.ServerConfig{Handler: link.HandlerFunc(l.serve), Pair: pair, Upgrade: upgrade, Limits: limits})
	if err != nil {
		return nil, err
	}
	st.client, err = link.NewClient(link.Config{Network: st.net, Pair: pair, Upgrade: upgrade, Cluster: "soak", ID: s.ID, Limits: limits})
	if err != nil {
		return nil, err
	}
	if st.ln, err = st.net.Listen(ctx, s.listenAt()); err != nil {
		return nil, err
	}
	return st, nil
}

func (s site) listenAt() string {
	switch {
	case s.Addr != "":
		return s.Addr
	case s.Transport == "unix", s.Transport == "shm":
		return "unix:" + filepath.Join(s.Dir, s.Transport+"."+s.ID)
	case s.Transport == "inproc":
		return s.ID + ":1"
	default:
		return "127.0.0.1:0"
	}
}

func (s site) sockets() (link.Network, error) {
	if s.Transport != "tls" {
		return sockets.Network{}, nil
	}
	file := func(name string) string { return filepath.Join(s.Dir, name) }
	return sockets.New(sockets.Config{TLSCert: file("node.crt"), TLSKey: file("node.key"), TLSCA: file("ca.crt")})
}

// run serves, and calls the other station by two callers, until ctx ends.
func (st *station) run(ctx context.Context) error {
	gate := link.Gate{Identity: link.Identity{Cluster: "soak", ID: st.ID}, Handle: st.server.Accept}
	runs := []func(context.Context) error{
		func(ctx context.Context) error { return gate.Serve(ctx, st.ln) },
		st.server.Run, st.client.Run,
	}
	if st.bulk != nil {
		runs = append(runs, st.bulk.Run)
	}
	for range 2 {
		runs = append(runs, func(ctx context.Context) error {
			st.load.keepCalling(ctx, st.client, st.Peer, rand.New(rand.NewPCG(rand.Uint64(), 1)))
			return nil
		})
	}
	errs := make([]error, len(runs))
	var all sync.WaitGroup
	for i, run := range runs {
		all.Go(func() { errs[i] = run(ctx) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// cutter is a Network that remembers the last connections that it dialled, and can cut one.
type cutter struct {
	link.Network
	mu   sync.Mutex
	last [6]net.Conn
	n    int
}

func (c *cutter) Dial(ctx context.Context, addr string) (net.Conn, error) {
	conn, err := c.Network.Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last[c.n%len(c.last)] = conn
	c.n++
	return conn, nil
}

// cut ends one of the connections, if it has not ended already.
func (c *cutter) cut() {
	c.mu.Lock()
	conn := c.last[rand.IntN(len(c.last))]
	c.mu.Unlock()
	if conn != nil {
		_ = conn.Close()
	}
}

// meeting is an inproc network whose pairs are inproc Comms.
type meeting struct {
	*inproc.Network
	mu    sync.Mutex
	comms map[uint64]p2p.Comm // rank 1 of those whose rank 0 is made
}

func newMeeting() *meeting {
	return &meeting{Network: inproc.NewNetwork(), comms: make(map[uint64]p2p.Comm)}
}

// pair is a link.PairFunc: rank 0 makes both ends and tells rank 1 the number under which its own waits.
func (m *meeting) pair(ctx context.Context, conns []net.Conn, rank int) (link.Comm, error) {
	stop := context.AfterFunc(ctx, func() { _ = conns[0].Close() })
	defer stop()
	var number [8]byte
	c := &metComm{conns: conns}
	var err error
	if rank == 0 {
		comms := inproc.World(2)
		id := rand.Uint64()
		binary.LittleEndian.PutUint64(number[:], id)
		m.mu.Lock()
		m.comms[id] = comms[1]
		m.mu.Unlock()
		c.Comm = comms[0]
		c.forget = func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			delete(m.comms, id)
		}
		_, err = conns[0].Write(number[:])
	} else if _, err = io.ReadFull(conns[0], number[:]); err == nil {
		id := binary.LittleEndian.Uint64(number[:])
		m.mu.Lock()
		c.Comm = m.comms[id]
		delete(m.comms, id)
		m.mu.Unlock()
		if c.Comm == nil {
			err = fmt.Errorf("%w: it closed before we met", p2p.ErrPeer)
		}
	}
	if err != nil {
		c.closeConns()
		return nil, err
	}
	return c, nil
}

// metComm is one end of an inproc pair, whose connection tells when the other side is gone.
type metComm struct {
	p2p.Comm
	conns  []net.Conn
	forget func() // nil at rank 1
}

func (c *metComm) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	_, err := c.conns[0].Read(make([]byte, 1))
	if errors.Is(err, io.EOF) {
		return p2p.ErrPeer // it has closed the other end, of which all that is pending here dies
	}
	_ = c.Close()
	return nil
}

func (c *metComm) Close() error {
	if c.forget != nil {
		c.forget()
	}
	err := c.Comm.Close()
	c.closeConns()
	return err
}

func (c *metComm) closeConns() {
	for _, conn := range c.conns {
		_ = conn.Close()
	}
}
