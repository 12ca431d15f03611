package shm

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"hcclps/p2p"
	"hcclps/p2p/shm/memfd"
)

// ErrNotLocal means that the two ranks cannot share memory: they are not on one host, or not in one place of it. Both ranks get it, and the
// connection can be used for something else.
var ErrNotLocal = errors.New("shm: peer is not local")

// Config of a Comm. The zero value is good.
type Config struct {
	Ring    int           // bytes of the ring of each direction, as rank 0 says: a power of two, default 1 MiB
	Arena   int           // bytes of address space for this rank's Alloc, default 1 GiB; memory is used as it is allocated
	Timeout time.Duration // of the negotiation, default 5 s; a ctx that ends earlier counts
	Logger  *slog.Logger  // nil: silent
}

// Defaults of Config.
const (
	DefaultRing    = 1 << 20
	DefaultArena   = 1 << 30
	DefaultTimeout = 5 * time.Second
)

func (c Config) withDefaults() (Config, error) {
	if c.Ring == 0 {
		c.Ring = DefaultRing
	}
	if c.Arena == 0 {
		c.Arena = DefaultArena
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Arena = (c.Arena + page - 1) &^ (page - 1)
	if c.Ring < 0 || c.Arena < 0 || c.Timeout < 0 {
		return c, fmt.Errorf("configure shared memory: ring %d, arena %d, timeout %v must not be negative", c.Ring, c.Arena, c.Timeout)
	}
	if err := (layout{ring: uint64(c.Ring), arena: [2]uint64{uint64(c.Arena), 0}}).check(); err != nil {
		return c, fmt.Errorf("configure shared memory: %w", err)
	}
	return c, nil
}

// Negotiate makes rank 0 or 1 of a 2-rank Comm with the process at the other end of conn, which must call it for the other rank. That the two
// share a host is found out by sharing memory, not by addresses. On ErrNotLocal conn is as it was, at both ends alike; on any other error it
// is closed. The Comm owns conn, whose end tells that the peer has died. It starts nothing: call Run, or Close if it is not to run.
func Negotiate(ctx context.Context, conn net.Conn, rank int, config Config) (*Comm, error) {
	config, err := config.withDefaults()
	if err == nil && rank != 0 && rank != 1 {
		err = fmt.Errorf("rank %d of a pair: %w", rank, p2p.ErrRank)
	}
	var c *Comm
	if err == nil {
		c, err = negotiate(ctx, conn, rank, config)
	}
	switch {
	case err == nil:
		return c, nil
	case errors.Is(err, ErrNotLocal):
		config.Logger.Info("no shared memory", "peer", conn.RemoteAddr().String(), "reason", err)
	default:
		_ = conn.Close() // what happened before says more
	}
	return nil, fmt.Errorf("share memory with %s: %w", conn.RemoteAddr(), err)
}

func negotiate(ctx context.Context, conn net.Conn, rank int, config Config) (*Comm, error) {
	ctx, cancel := context.WithTimeout(ctx, config.Timeout)
	defer cancel()
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	release := p2p.Bound(ctx, conn)
	n := negotiation{conn: conn, rank: rank, config: config}
	c, err := n.run()
	if broken := release(); broken != nil { // only now is it sure that the deadline does not strike later
		if c != nil {
			broken = errors.Join(broken, c.engine.mem.unmap(), memfd.Close(c.file))
		}
		return nil, broken
	}
	return c, err
}

// negotiation is the state of one.
type negotiation struct {
	conn   net.Conn
	rank   int
	config Config
	own    hello
	peer   hello
}

func (n *negotiation) run() (*Comm, error) {
	n.own = hello{
		version: version, rank: uint8(n.rank), pid: uint32(os.Getpid()), uid: uint32(os.Geteuid()),
		ring: uint64(n.config.Ring), arena: uint64(n.config.Arena),
	}
	_, n.own.passes = n.conn.(passer)
	_, _ = rand.Read(n.own.nonce[:]) // never fails
	if err := n.greet(); err != nil {
		return nil, err
	}
	switch {
	case n.peer.version != version:
		return nil, fmt.Errorf("%w: it speaks version %d, not %d", ErrNotLocal, n.peer.version, version)
	case n.peer.rank == n.own.rank:
		return nil, fmt.Errorf("peer is rank %d too: %w", n.rank, p2p.ErrCorrupt)
	case n.peer.uid != n.own.uid:
		return nil, fmt.Errorf("%w: it runs as user %d, not %d", ErrNotLocal, n.peer.uid, n.own.uid)
	}
	if n.rank == 0 {
		return n.host()
	}
	return n.join()
}

// greet exchanges hellos, rank 0 first.
func (n *negotiation) greet() (err error) {
	if n.rank == 0 {
		if err := n.write(n.own.encode()); err != nil {
			return err
		}
	}
	b := make([]byte, helloBytes)
	if err := n.read(b); err != nil {
		return err
	}
	if n.peer, err = decodeHello(b); err != nil {
		return err
	}
	if n.rank == 1 {
		return n.write(n.own.encode())
	}
	return nil
}

// host makes the memory, offers it, and hears whether the peer has it.
func (n *negotiation) host() (*Comm, error) {
	l := layout{ring: n.own.ring, arena: [2]uint64{n.own.arena, n.peer.arena}}
	if err := l.check(); err != nil {
		return nil, fmt.Errorf("peer asks for %w: %w", err, p2p.ErrCorrupt)
	}
	mem, fd, lacking := createMemory(l, n.own.nonce[:])
	if lacking != nil {
		if err := n.write(offer{way: wayNone}.encode()); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%w: no memory to share: %w", ErrNotLocal, lacking)
	}
	ok, err := n.propose(l, fd)
	switch {
	case err != nil:
	case !ok:
		err = fmt.Errorf("%w: it cannot open the memory of this process", ErrNotLocal)
	case !bytes.Equal(mem.nonce(1), n.peer.nonce[:]):
		err = fmt.Errorf("peer has other memory than was offered: %w", p2p.ErrCorrupt)
	default:
		return newComm(n.conn, n.rank, mem, fd, n.config.Logger), nil
	}
	return nil, errors.Join(err, mem.unmap(), memfd.Close(fd))
}

func (n *negotiation) propose(l layout, fd int) (ok bool, err error) {
	o := offer{way: wayFound, fd: uint32(fd), ring: l.ring, total: l.total()}
	if n.own.passes && n.peer.passes {
		o.way = wayPassed
		err = sendDescriptor(n.conn, o.encode(), fd)
	} else {
		err = n.write(o.encode())
	}
	if err != nil {
		return false, err
	}
	b := make([]byte, verdictBytes)
	if err := n.read(b); err != nil {
		return false, err
	}
	return decodeVerdict(b)
}

// join opens the memory that is offered, and says whether it did.
func (n *negotiation) join() (*Comm, error) {
	b, fd, err := n.readOffer()
	if err != nil {
		return nil, err
	}
	o, err := decodeOffer(b)
	if err != nil || o.way == wayNone {
		if err == nil {
			err = fmt.Errorf("%w: it has no memory to share", ErrNotLocal)
		}
		return nil, errors.Join(err, closeIf(fd))
	}
	l := layout{ring: o.ring, arena: [2]uint64{n.peer.arena, n.own.arena}}
	if err := l.check(); err != nil || l.total() != o.total {
		return nil, errors.Join(fmt.Errorf("peer offers %d bytes, ring %d: %w", o.total, o.ring, p2p.ErrCorrupt), closeIf(fd))
	}
	if o.way == wayFound {
		fd, err = memfd.Find(int(n.peer.pid), int(o.fd), memoryName(n.peer.nonce[:]))
	} else if fd < 0 {
		err = errors.New("the descriptor did not come with the offer")
	}
	var mem *memory
	if err == nil {
		mem, err = joinMemory(l, fd, n.peer.nonce[:], n.own.nonce[:])
	}
	if failed := n.write(encodeVerdict(err == nil)); failed != nil {
		if mem != nil {
			failed = errors.Join(failed, mem.unmap())
		}
		return nil, errors.Join(failed, closeIf(fd))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", ErrNotLocal, err), closeIf(fd))
	}
	return newComm(n.conn, n.rank, mem, fd, n.config.Logger), nil
}

// readOffer reads rank 0's offer and the descriptor with it, -1 if there is none.
func (n *negotiation) readOffer() (b []byte, fd int, err error) {
	b = make([]byte, offerBytes)
	if n.own.passes && n.peer.passes {
		fd, err = receiveDescriptor(n.conn, b)
		return b, fd, err
	}
	return b, -1, n.read(b)
}

func closeIf(fd int) error {
	if fd < 0 {
		return nil
	}
	return memfd.Close(fd)
}

func (n *negotiation) write(b []byte) error {
	if _, err := n.conn.Write(b); err != nil {
		return fmt.Errorf("%w: %w", p2p.ErrPeer, err)
	}
	return nil
}

func (n *negotiation) read(b []byte) error {
	if _, err := io.ReadFull(n.conn, b); err != nil {
		return fmt.Errorf("%w: %w", p2p.ErrPeer, err)
	}
	return nil
}

// passer is a Unix socket, or what has one inside.
type passer interface {
	net.Conn
	WriteMsgUnix(b, oob []byte, addr *net.UnixAddr) (n, oobn int, err error)
	ReadMsgUnix(b, oob []byte) (n, oobn, flags int, addr *net.UnixAddr, err error)
}

// sendDescriptor sends b and fd with it.
func sendDescriptor(conn net.Conn, b []byte, fd int) error {
	c, ok := conn.(passer)
	if !ok {
		return fmt.Errorf("pass a descriptor over %T: not a Unix socket", conn)
	}
	n, _, err := c.WriteMsgUnix(b, unix.UnixRights(fd), nil)
	if err == nil && n < len(b) {
		_, err = c.Write(b[n:])
	}
	if err != nil {
		return fmt.Errorf("pass a descriptor: %w: %w", p2p.ErrPeer, err)
	}
	return nil
}

// receiveDescriptor fills b and returns the descriptor that comes with it, or -1.
func receiveDescriptor(conn net.Conn, b []byte) (int, error) {
	c, ok := conn.(passer)
	if !ok {
		return -1, fmt.Errorf("receive a descriptor over %T: not a Unix socket", conn)
	}
	fd := -1
	oob := make([]byte, unix.CmsgSpace(4*maxDescriptors))
	for len(b) > 0 {
		n, m, _, _, err := c.ReadMsgUnix(b, oob)
		if n == 0 && err == nil {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return -1, errors.Join(fmt.Errorf("receive a descriptor: %w: %w", p2p.ErrPeer, err), closeIf(fd))
		}
		b = b[n:]
		for _, got := range descriptors(oob[:m]) {
			if err := closeIf(fd); err != nil { // one was expected; the last counts
				return got, err
			}
			fd = got
		}
	}
	return fd, nil
}

// maxDescriptors is how many we have room for: one comes; of more the kernel drops what does not fit.
const maxDescriptors = 4

// descriptors are those in a control message.
func descriptors(oob []byte) []int {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	var fds []int
	for _, m := range messages {
		if got, err := unix.ParseUnixRights(&m); err == nil {
			fds = append(fds, got...)
		}
	}
	return fds
}
