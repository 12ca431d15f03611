package backend_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"

	"hcclps/p2p"
	"hcclps/p2p/hccl"
	"hcclps/p2p/link"
	"hcclps/p2p/shm"
	"hcclps/p2p/tcp"
)

// road makes pairs over one transport.
type road struct {
	site
	devices [2]*hccl.Device // of hccl, running
	network link.Network
}

// eachRoad runs a test over every transport but those left out.
func eachRoad(t *testing.T, test func(t *testing.T, r *road), without ...string) {
	t.Helper()
	dir := t.TempDir()
	writeCertificates(t, dir)
	for _, transport := range soaked() {
		if slices.Contains(without, transport) {
			continue
		}
		t.Run(transport, func(t *testing.T) {
			r := &road{site: site{Transport: transport, Dir: dir, ID: "road"}}
			if transport == "inproc" {
				r.meeting = newMeeting()
				r.network = r.meeting
			} else {
				var err error
				if r.network, err = r.sockets(); err != nil {
					t.Fatal(err)
				}
			}
			if transport == "hccl" {
				r.runDevices(t)
			}
			test(t, r)
		})
	}
}

// open makes a world of two running ranks that ends with the test.
func (r *road) open(t *testing.T, n int) []p2p.Comm {
	t.Helper()
	if n != 2 {
		t.Skip("a pair has two ranks")
	}
	comms, err := r.pair(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for _, c := range comms {
		all.Go(func() { _ = c.Run(ctx) })
	}
	t.Cleanup(func() {
		cancel()
		all.Wait()
	})
	return []p2p.Comm{comms[0], comms[1]}
}

// runDevices runs both devices until the test ends.
func (r *road) runDevices(t *testing.T) {
	t.Helper()
	if !needSimulator(t) {
		t.Skip("no simulator without a C compiler")
	}
	for i := range r.devices {
		d, err := hccl.Open(hccl.Config{Device: i})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if err := d.Run(ctx); ctx.Err() == nil {
				t.Errorf("run device %d: %v", i, err)
			}
		}()
		t.Cleanup(func() {
			cancel()
			<-ended
		})
		r.devices[i] = d
	}
}

// pair makes both ends in this process.
func (r *road) pair(ctx context.Context) ([2]link.Comm, error) {
	var comms [2]link.Comm
	l, err := r.network.Listen(ctx, r.listenAt())
	if err != nil {
		return comms, err
	}
	defer l.Close()
	connect := [2]func() (net.Conn, error){
		func() (net.Conn, error) { return r.network.Dial(ctx, l.Addr().String()) },
		func() (net.Conn, error) {
			conn, err := l.Accept()
			if err == nil {
				_, err = conn.Write(nil) // opens the door, for which a dialler waits
			}
			return conn, err
		},
	}
	var errs [2]error
	var both sync.WaitGroup
	for rank := range 2 {
		both.Go(func() {
			conn, err := connect[rank]()
			if err == nil {
				comms[rank], err = r.comm(ctx, r.devices[rank], conn, rank)
			}
			errs[rank] = err
		})
	}
	both.Wait()
	return comms, errors.Join(errs[:]...)
}

// comm makes one end over a connection.
func (s site) comm(ctx context.Context, device *hccl.Device, conn net.Conn, rank int) (link.Comm, error) {
	switch s.Transport {
	case "inproc":
		return s.meeting.pair(ctx, []net.Conn{conn}, rank)
	case "shm":
		return shm.Negotiate(ctx, conn, rank, shm.Config{})
	case "hccl":
		if device == nil {
			return nil, fmt.Errorf("make rank %d over hccl without a device", rank)
		}
		return device.Pair(ctx, conn, rank)
	default:
		return tcp.Pair([]net.Conn{conn}, rank), nil
	}
}
