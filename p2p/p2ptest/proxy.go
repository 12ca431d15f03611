package p2ptest

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
)

// Proxy stands between diallers and a server and spoils connections by chance: it is how real sockets get the faults of a bad network. Each
// direction of each connection draws from Seed by its number, for every piece of up to 64 KiB that comes through.
type Proxy struct {
	Dial func(ctx context.Context) (net.Conn, error) // connects to the server
	Seed uint64
	// Cut, Stall and Corrupt are chances, 0 to 1, for each piece: the connection is closed; nothing more of that direction arrives, and nobody is told; or one
	// bit of the piece is flipped.
	Cut, Stall, Corrupt float64
	Spare               int // bytes at the beginning of each direction that pass unharmed

	Cuts, Stalls, Corruptions atomic.Int64 // so far
}

// Serve forwards connections until ctx ends or ln fails, and closes ln. It returns when its goroutines have ended; a clean end is nil.
func (p *Proxy) Serve(ctx context.Context, ln net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = ln.Close() })
	defer stop()
	for number := uint64(0); ; number++ {
		near, err := ln.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return nil
			}
			return err
		}
		all.Go(func() { p.carry(ctx, near, number) })
	}
}

// carry connects one dialler to the server until one of them closes.
func (p *Proxy) carry(ctx context.Context, near net.Conn, number uint64) {
	far, err := p.Dial(ctx)
	if err != nil {
		_ = near.Close()
		return
	}
	end := sync.OnceFunc(func() {
		_ = near.Close()
		_ = far.Close()
	})
	defer end()
	stop := context.AfterFunc(ctx, end)
	defer stop()
	var ways sync.WaitGroup
	for i, way := range [2][2]net.Conn{{near, far}, {far, near}} {
		ways.Go(func() {
			defer end()
			p.forward(way[0], way[1], rand.New(rand.NewPCG(p.Seed, 2*number+uint64(i))))
		})
	}
	ways.Wait()
}

// forward carries one direction with its faults, until either side is closed.
func (p *Proxy) forward(from, to net.Conn, rng *rand.Rand) {
	buf := make([]byte, piece)
	stalled := false
	for passed := 0; ; {
		n, err := from.Read(buf)
		passed += n
		if passed > p.Spare && n > 0 && !stalled {
			cut, stall, corrupt := rng.Float64() < p.Cut, rng.Float64() < p.Stall, rng.Float64() < p.Corrupt
			switch {
			case cut:
				p.Cuts.Add(1)
				return
			case stall:
				p.Stalls.Add(1)
				stalled = true
			case corrupt:
				p.Corruptions.Add(1)
				buf[rng.IntN(n)] ^= 1 << rng.IntN(8)
			}
		}
		if !stalled {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
