package pairbench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/hccl"
	"hcclps/p2p/inproc"
	"hcclps/p2p/link"
	"hcclps/p2p/shm"
	"hcclps/p2p/sockets"
	"hcclps/p2p/sockets/certs"
	"hcclps/p2p/tcp"
)

// The transports.
const (
	Inproc = "inproc" // two ranks of one process
	Shm    = "shm"    // shared memory
	Unix   = "unix"   // Unix sockets
	TCP    = "tcp"    // TCP on loopback
	TLS    = "tls"    // TLS 1.3 on loopback
	HCCL   = "hccl"   // between two NPUs of this host, or of the simulator
)

// Transports lists them.
func Transports() []string { return []string{Inproc, Shm, Unix, TCP, TLS, HCCL} }

// Config says how two processes are connected. Both get the same.
type Config struct {
	Transport string
	Dir       string // a private folder for sockets and certificates
	Stripes   int    // connections of unix, tcp and tls; 0 is 1
	Checksum  bool   // CRC-32C also where it is not needed; without it, nowhere
	Transfer  bool   // messages go through a p2p.Transfer, as pushes and pulls do; not for inproc
	Devices   [2]int // of hccl: the NPUs of rank 0 and rank 1
}

// Pair is one end of a connected pair, or both ends of one in this process.
type Pair struct {
	Transport string
	Comm      p2p.Comm

	chunked *chunked                        // nil: messages go straight through Comm
	run     func(ctx context.Context) error // nil: the Comm has no goroutines
	release func() error                    // nil: there is nothing but the Comm
	control net.Conn                        // nil in one process
	peer    peer
}

// Host waits for the other process.
type Host struct {
	cfg      Config
	listener net.Listener
}

// What bounds everything that is done before the Comm is there.
const (
	setup     = 30 * time.Second
	setupHCCL = time.Minute
)

func (cfg Config) setup() time.Duration {
	if cfg.Transport == HCCL {
		return setupHCCL
	}
	return setup
}

// Listen makes what the other process dials. For certificates it writes into cfg.Dir.
func Listen(ctx context.Context, cfg Config) (*Host, error) {
	if cfg.Transport == TLS {
		if err := writeCertificates(cfg.Dir); err != nil {
			return nil, err
		}
	}
	network, err := cfg.network()
	if err != nil {
		return nil, err
	}
	addr := "127.0.0.1:0"
	if cfg.unix() {
		addr = "unix:" + filepath.Join(cfg.Dir, "pair.sock")
	}
	l, err := network.Listen(ctx, addr)
	if err != nil {
		return nil, err
	}
	return &Host{cfg, l}, nil
}

// Addr is what the other process gives to Dial.
func (h *Host) Addr() string { return h.listener.Addr().String() }

// Accept waits for the other process and makes rank 0. It is called once; afterwards nobody can dial any more.
func (h *Host) Accept(ctx context.Context) (*Pair, error) {
	ctx, cancel := context.WithTimeout(ctx, h.cfg.setup())
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = h.listener.Close() })
	defer stop()
	conns := make([]net.Conn, h.cfg.conns())
	for i := range conns {
		c, err := h.listener.Accept()
		if err == nil {
			conns[i], err = c, hear(ctx, c, i)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("wait for the other rank: %w", err), context.Cause(ctx), closeAll(conns))
		}
	}
	if err := h.Close(); err != nil {
		return nil, errors.Join(err, closeAll(conns))
	}
	return h.cfg.pair(ctx, conns, 0)
}

// Close stops listening, for who does not Accept. More than once is no error.
func (h *Host) Close() error {
	if err := h.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("stop listening: %w", err)
	}
	return nil
}

// Dial connects to a Host and makes rank 1.
func Dial(ctx context.Context, cfg Config, addr string) (*Pair, error) {
	ctx, cancel := context.WithTimeout(ctx, cfg.setup())
	defer cancel()
	network, err := cfg.network()
	if err != nil {
		return nil, err
	}
	conns := make([]net.Conn, cfg.conns())
	for i := range conns {
		if conns[i], err = network.Dial(ctx, addr); err == nil {
			_, err = conns[i].Write([]byte{byte(i)})
		}
		if err != nil {
			return nil, errors.Join(err, closeAll(conns))
		}
	}
	return cfg.pair(ctx, conns, 1)
}

// hear reads the number of a connection, which the dialler writes first.
func hear(ctx context.Context, c net.Conn, want int) error {
	release := p2p.Bound(ctx, c)
	var b [1]byte
	_, err := io.ReadFull(c, b[:])
	if err = errors.Join(release(), err); err != nil {
		return err
	}
	if int(b[0]) != want {
		return fmt.Errorf("connection %d came where %d was due", b[0], want)
	}
	return nil
}

// pair makes the Comm over conns; the first is the control connection.
func (cfg Config) pair(ctx context.Context, conns []net.Conn, rank int) (*Pair, error) {
	p := &Pair{Transport: cfg.Transport, control: conns[0]}
	p.peer = newRemote(conns[0])
	bulk := conns[1:]
	if cfg.Transfer {
		bulk = conns[2:]
	}
	comm, release, err := cfg.comm(ctx, bulk, rank)
	if err != nil {
		return nil, errors.Join(err, closeAll(conns[:len(conns)-len(bulk)]))
	}
	p.Comm, p.run, p.release = comm, comm.Run, release
	if cfg.Transfer {
		if p.chunked, err = newChunked(comm, rank, conns[1]); err != nil {
			return nil, err // a fault of this program
		}
		p.run = p.chunked.run
	}
	return p, nil
}

// conns is how many connections a pair takes: for control, signals and bulk.
func (cfg Config) conns() int {
	if cfg.Transfer {
		return 2 + cfg.stripes()
	}
	return 1 + cfg.stripes()
}

func (p *Pair) ends() messages {
	if p.chunked != nil {
		return p.chunked
	}
	return direct{p.Comm}
}

func (cfg Config) comm(ctx context.Context, conns []net.Conn, rank int) (comm link.Comm, release func() error, err error) {
	switch cfg.Transport {
	case Shm:
		comm, err = shm.Negotiate(ctx, conns[0], rank, shm.Config{})
		return comm, nil, err
	case HCCL:
		return cfg.hccl(ctx, conns[0], rank)
	}
	sums := tcp.ChecksumOff
	if cfg.Checksum {
		sums = tcp.ChecksumOn
	}
	return tcp.Config{Checksum: sums}.Pair(conns, rank), nil, nil
}

// errDone ends the run of a device or a transfer.
var errDone = errors.New("measured")

// hccl opens this rank's device, which runs until release is called.
func (cfg Config) hccl(ctx context.Context, conn net.Conn, rank int) (comm link.Comm, release func() error, err error) {
	device, err := hccl.Open(hccl.Config{Device: cfg.Devices[rank]})
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	running, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- device.Run(running) }()
	release = func() error {
		cancel(errDone)
		if err := <-ended; !errors.Is(err, errDone) {
			return err
		}
		return nil
	}
	comm, err = device.Pair(ctx, conn, rank)
	if err != nil {
		return nil, nil, errors.Join(err, release())
	}
	return comm, release, nil
}

// Together makes both ranks in this process.
func Together(ctx context.Context) *Pair {
	comms := inproc.World(2)
	return &Pair{Transport: Inproc, Comm: comms[0], peer: newLocal(ctx, comms[1])}
}

// lastWords is how long a rank whose Comm has ended still hears the other one, which may know why.
const lastWords = 30 * time.Second

// Do runs the Comm beside f and returns when both have ended. What f returns counts more than how the Comm ends after it; why the Comm or ctx ended
// before it stands in front, unless f met that itself.
func (p *Pair) Do(ctx context.Context, f func(ctx context.Context) error) error {
	silence := func() {
		if p.control != nil {
			_ = p.control.SetDeadline(time.Unix(1, 0)) // wakes who waits for the other rank
		}
	}
	defer context.AfterFunc(ctx, silence)()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ran, done := make(chan error, 1), make(chan struct{})
	go func() {
		var err error
		if p.run != nil {
			err = p.run(ctx)
		}
		if err != nil {
			cancel(err)
			select {
			case <-done:
			case <-time.After(lastWords):
				silence()
			}
		}
		ran <- err
	}()
	err := f(ctx)
	close(done)
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) && !errors.Is(err, p2p.ErrPeer) && !errors.Is(err, p2p.ErrClosed) {
		err = errors.Join(cause, err)
	}
	if p.chunked != nil {
		cancel(errDone) // it owns the Comm
	} else {
		err = errors.Join(err, p.Comm.Close())
	}
	// The other rank may have closed first.
	if ended := <-ran; err == nil && !errors.Is(ended, p2p.ErrPeer) && !errors.Is(ended, errDone) {
		err = ended
	}
	if p.release != nil {
		err = errors.Join(err, p.release())
	}
	if p.control != nil {
		err = errors.Join(err, p.control.Close())
	}
	return err
}

func (cfg Config) stripes() int {
	if cfg.Transport == Shm || cfg.Transport == HCCL {
		return 1
	}
	return max(cfg.Stripes, 1)
}

func (cfg Config) unix() bool {
	return cfg.Transport == Unix || cfg.Transport == Shm || cfg.Transport == HCCL
}

func (cfg Config) network() (sockets.Network, error) {
	switch cfg.Transport {
	case Shm, Unix, TCP, HCCL:
		return sockets.Network{}, nil
	case TLS:
		file := func(name string) string { return filepath.Join(cfg.Dir, name) }
		return sockets.New(sockets.Config{TLSCert: file("pair.crt"), TLSKey: file("pair.key"), TLSCA: file("ca.crt")})
	default:
		return sockets.Network{}, fmt.Errorf("connect by %q: no such transport", cfg.Transport)
	}
}

// writeCertificates makes a CA that is good for an hour and one certificate for both ranks.
func writeCertificates(dir string) error {
	ca, err := certs.NewAuthority("bench", time.Hour)
	if err != nil {
		return err
	}
	pair, err := ca.Issue(certs.Request{Name: "pair", Validity: time.Hour})
	if err != nil {
		return err
	}
	return errors.Join(
		ca.Pair().Write(filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key")),
		pair.Write(filepath.Join(dir, "pair.crt"), filepath.Join(dir, "pair.key")),
	)
}

func closeAll(conns []net.Conn) error {
	var errs []error
	for _, c := range conns {
		if c != nil {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}
