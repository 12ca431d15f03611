package shm_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hcclps/p2p"
	"hcclps/p2p/shm"
)

// stranger negotiates with a peer that must turn out not to be local, on both sides, and then uses the connection.
func stranger(t *testing.T, network string, attr *syscall.SysProcAttr) {
	t.Helper()
	leavesNothing(t)
	p := startPeerAs(t, network, "stranger", attr)
	c, err := shm.Negotiate(t.Context(), p.conn, 0, shm.Config{})
	if c != nil || !errors.Is(err, shm.ErrNotLocal) {
		t.Fatalf("negotiate: %v, want ErrNotLocal", err)
	}
	t.Log(err)
	b := make([]byte, 5)
	if _, err := io.ReadFull(p.conn, b); err != nil || string(b) != "hello" {
		t.Errorf("read %q: %v", b, err)
	}
	if _, err := p.conn.Write([]byte("world")); err != nil {
		t.Error(err)
	}
	if err := p.Wait(); err != nil {
		t.Errorf("peer process: %v", err)
	}
}

// namespaces makes a process in namespaces of its own, in which it is the same user.
func namespaces(flags uintptr) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  flags | syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}},
	}
}

func TestOtherPIDNamespaceNeedsRoot(t *testing.T) {
	stranger(t, "tcp", namespaces(syscall.CLONE_NEWPID))
}

// A descriptor passes over a Unix socket from one PID namespace to another.
func TestOtherPIDNamespaceOverUnixSocketNeedsRoot(t *testing.T) {
	leavesNothing(t)
	c := startPeerAs(t, "unix", "echo:8", namespaces(syscall.CLONE_NEWPID)).join(t, shm.Config{})
	exchange(t, c, 8)
}

func TestOtherUserNeedsRoot(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can start a process of another user")
	}
	stranger(t, "tcp", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}})
}

// exchange sends n bytes to a peer that echoes.
func exchange(t *testing.T, c *shm.Comm, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	want, got := buffers(1, n)[0], make([]byte, n)
	recv := c.Irecv(1, p2p.Bytes(got))
	if err := errors.Join(p2p.Send(ctx, c, 1, p2p.Bytes(want)), recv.Wait(ctx)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("bytes arrived changed")
	}
}

// negotiateAlone makes one rank with a peer that is not one of ours, and must fail.
func negotiateAlone(t *testing.T, conn net.Conn, rank int) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := shm.Negotiate(ctx, conn, rank, shm.Config{})
	if err == nil {
		return errors.Join(errors.New("negotiated"), c.Close())
	}
	return err
}

func TestSilentPeer(t *testing.T) {
	leavesNothing(t)
	for rank := range 2 {
		a, b := sockets(t, "tcp", "127.0.0.1:0")
		defer b.Close()
		began := time.Now()
		_, err := shm.Negotiate(t.Context(), a, rank, shm.Config{Timeout: 30 * time.Millisecond})
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > patience {
			t.Errorf("rank %d with a silent peer: %v", rank, err)
		}
		if _, err := a.Write([]byte{1}); !errors.Is(err, net.ErrClosed) {
			t.Errorf("rank %d left its connection open: %v", rank, err)
		}
	}
}

func TestCancelled(t *testing.T) {
	a, b := sockets(t, "tcp", "127.0.0.1:0")
	defer b.Close()
	reason := errors.New("changed my mind")
	ctx, cancel := context.WithCancelCause(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := shm.Negotiate(ctx, a, 0, shm.Config{})
		failed <- err
	}()
	if _, err := io.ReadFull(b, make([]byte, 48)); err != nil { // it waits for our hello now
		t.Error(err)
	}
	cancel(reason)
	if err := <-failed; !errors.Is(err, reason) {
		t.Error(err)
	}
}

func TestConfig(t *testing.T) {
	for _, config := range []shm.Config{{Ring: 3000}, {Ring: -1}, {Ring: 3 << 20}, {Arena: -5000}, {Timeout: -1}} {
		a, b := sockets(t, "tcp", "127.0.0.1:0")
		if _, err := shm.Negotiate(t.Context(), a, 0, config); err == nil {
			t.Errorf("accepted %+v", config)
		}
		_ = b.Close()
	}
	a, b := sockets(t, "tcp", "127.0.0.1:0")
	defer b.Close()
	if _, err := shm.Negotiate(t.Context(), a, 2, shm.Config{}); !errors.Is(err, p2p.ErrRank) {
		t.Errorf("rank 2: %v", err)
	}
}

// Sizes may differ; rank 0's ring counts, and each rank's own arena.
func TestConfigsDiffer(t *testing.T) {
	leavesNothing(t)
	a, b := sockets(t, "unix", filepath.Join(t.TempDir(), "s"))
	comms, errs := negotiate(t, a, b, [2]shm.Config{{Ring: 4096, Arena: 8192}, {Ring: 1 << 22, Arena: 100}})
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{8192, 4096} {
		if _, err := comms[i].Alloc(want + 1); !errors.Is(err, shm.ErrArena) {
			t.Errorf("rank %d: allocated %d bytes: %v", i, want+1, err)
		}
		if _, err := comms[i].Alloc(want); err != nil {
			t.Errorf("rank %d: %v", i, err)
		}
		if err := comms[i].Close(); err != nil {
			t.Error(err)
		}
	}
}

// hostileOffers are descriptors that would let the peer kill us by taking memory away, or are none of ours.
func TestHostileDescriptor(t *testing.T) {
	hello := append([]byte("shm?\x03\x00\x00\x01"), make([]byte, 40)...)
	hello[8], hello[17], hello[16] = 1, 0x10, 0 // pid 1, ring of 4096 bytes
	uid := os.Geteuid()
	hello[12], hello[13], hello[14], hello[15] = byte(uid), byte(uid>>8), byte(uid>>16), byte(uid>>24)
	const total = 8192 + 2*4096 + shm.DefaultArena // the stranger has no arena
	offer := append([]byte("shm!\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"), make([]byte, 16)...)
	offer[17] = 0x10
	for i := range 8 {
		offer[24+i] = byte(uint64(total) >> (8 * i))
	}
	for name, size := range map[string]int64{"not sealed": total, "too short": 4096, "too long": total + 4096, "none": -1} {
		t.Run(name, func(t *testing.T) {
			leavesNothing(t)
			a, b := sockets(t, "unix", filepath.Join(t.TempDir(), "s"))
			defer b.Close()
			failed := make(chan error, 1)
			go func() { failed <- negotiateAlone(t, a, 1) }()
			if _, err := b.Write(hello); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(b, make([]byte, 48)); err != nil {
				t.Fatal(err)
			}
			var rights []byte
			if size >= 0 {
				fd, err := unix.MemfdCreate("hostile", unix.MFD_CLOEXEC)
				if err != nil {
					t.Fatal(err)
				}
				defer unix.Close(fd)
				if err := unix.Ftruncate(fd, size); err != nil {
					t.Fatal(err)
				}
				rights = unix.UnixRights(fd)
			}
			if _, _, err := b.(*net.UnixConn).WriteMsgUnix(offer, rights, nil); err != nil {
				t.Fatal(err)
			}
			verdict := make([]byte, 8)
			if _, err := io.ReadFull(b, verdict); err != nil || verdict[4] != 0 {
				t.Errorf("verdict %q: %v", verdict, err)
			}
			err := <-failed
			if !errors.Is(err, shm.ErrNotLocal) {
				t.Errorf("took the descriptor: %v", err)
			}
			t.Log(err)
		})
	}
}

func TestPeerTalksSomethingElse(t *testing.T) {
	for rank := range 2 {
		a, b := sockets(t, "tcp", "127.0.0.1:0")
		if _, err := b.Write(bytes.Repeat([]byte("GET / "), 20)); err != nil {
			t.Fatal(err)
		}
		_, err := shm.Negotiate(t.Context(), a, rank, shm.Config{})
		if !errors.Is(err, p2p.ErrCorrupt) {
			t.Errorf("rank %d: %v", rank, err)
		}
		_ = b.Close()
	}
	// Both think that they are rank 0.
	a, b := sockets(t, "tcp", "127.0.0.1:0")
	failed := make(chan error, 2)
	for _, conn := range []net.Conn{a, b} {
		go func() {
			_, err := shm.Negotiate(t.Context(), conn, 0, shm.Config{})
			failed <- err
		}()
	}
	for range 2 {
		if err := <-failed; err == nil || errors.Is(err, shm.ErrNotLocal) {
			t.Errorf("two of rank 0: %v", err)
		}
	}
}

// A later version is not spoken to, and the connection stays clean.
func TestOtherVersion(t *testing.T) {
	a, b := sockets(t, "tcp", "127.0.0.1:0")
	defer a.Close()
	defer b.Close()
	failed := make(chan error, 1)
	go func() { failed <- negotiateAlone(t, a, 1) }()
	if _, err := b.Write(append([]byte("shm?\x63\x00\x09\x09"), make([]byte, 40)...)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(b, make([]byte, 48)); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; !errors.Is(err, shm.ErrNotLocal) {
		t.Error(err)
	}
	go func() { _, _ = b.Write([]byte("x")) }()
	if n, err := a.Read(make([]byte, 10)); n != 1 || err != nil {
		t.Errorf("read %d bytes: %v", n, err)
	}
}
