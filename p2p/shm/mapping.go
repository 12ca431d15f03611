package shm

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// nonceBytes is the length of the number by which memory is recognised.
const nonceBytes = 16

// seals forbid either side to take memory away from under the other, which would be a fatal signal.
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

func memoryName(nonce []byte) string { return "hcclps-" + hex.EncodeToString(nonce) }

// createMemory makes memory without a name in any file system. Rings are backed at once; arenas when they are used.
func createMemory(l layout, nonce []byte) (m *memory, fd int, err error) {
	fd, err = unix.MemfdCreate(memoryName(nonce), unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, 0, fmt.Errorf("memfd_create: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, closeFile(fd))
		}
	}()
	if err := unix.Ftruncate(fd, int64(l.total())); err != nil {
		return nil, 0, fmt.Errorf("size memfd to %d bytes: %w", l.total(), err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return nil, 0, fmt.Errorf("seal memfd: %w", err)
	}
	if err := unix.Fallocate(fd, 0, 0, int64(l.arenaOffset(0))); err != nil {
		return nil, 0, fmt.Errorf("allocate %d bytes of shared memory: %w", l.arenaOffset(0), err)
	}
	if m, err = mapMemory(l, fd); err != nil {
		return nil, 0, err
	}
	copy(m.nonce(0), nonce)
	return m, fd, nil
}

// findMemory opens the memory that another process of this host has as descriptor fd, if it is that of the nonce.
func findMemory(pid, fd int, nonce []byte) (int, error) {
	path := "/proc/" + strconv.Itoa(pid) + "/fd/" + strconv.Itoa(fd)
	name, err := os.Readlink(path) // before it is opened: to open a stranger's device may do something
	if err != nil {
		return -1, fmt.Errorf("find the peer's memory: %w", err)
	}
	if want := "/memfd:" + memoryName(nonce) + " (deleted)"; name != want {
		return -1, fmt.Errorf("find the peer's memory: %s is %q, not %q", path, name, want)
	}
	got, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return -1, fmt.Errorf("open %s: %w", path, err)
	}
	return got, nil
}

// joinMemory maps memory that the peer has made, and leaves own as the sign that this was done.
func joinMemory(l layout, fd int, nonce, own []byte) (*memory, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("look at the peer's memory: %w", err)
	}
	if st.Size < 0 || uint64(st.Size) != l.total() {
		return nil, fmt.Errorf("peer's memory has %d bytes, want %d", st.Size, l.total())
	}
	got, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil {
		return nil, fmt.Errorf("look at the seals of the peer's memory: %w", err)
	}
	if got&unix.F_SEAL_SHRINK == 0 {
		return nil, fmt.Errorf("peer's memory may shrink: seals %#x", got)
	}
	m, err := mapMemory(l, fd)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(m.nonce(0), nonce) {
		return nil, errors.Join(errors.New("peer's memory has another nonce"), m.unmap())
	}
	copy(m.nonce(1), own)
	return m, nil
}

func mapMemory(l layout, fd int) (*memory, error) {
	b, err := unix.Mmap(fd, 0, int(l.total()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes of shared memory: %w", l.total(), err)
	}
	// Page tables now rather than at the first messages; on an older kernel that cannot, then.
	_ = unix.Madvise(b[:l.arenaOffset(0)], unix.MADV_POPULATE_WRITE)
	return view(l, b), nil
}

func (m *memory) unmap() error {
	if err := unix.Munmap(m.bytes); err != nil {
		return fmt.Errorf("unmap shared memory: %w", err)
	}
	return nil
}

func closeFile(fd int) error {
	if err := unix.Close(fd); err != nil {
		return fmt.Errorf("close shared memory: %w", err)
	}
	return nil
}
