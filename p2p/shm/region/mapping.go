package region

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// seals forbid everybody to take memory away from under the others, which would be a fatal signal.
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

func memoryName(nonce []byte) string { return "hcclps-region-" + hex.EncodeToString(nonce) }

// create makes memory without a name in any file system. Only the control words are backed at once.
func create(l layout, nonce []byte) (fd int, err error) {
	fd, err = unix.MemfdCreate(memoryName(nonce), unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return -1, fmt.Errorf("memfd_create: %w", err)
	}
	if err = unix.Ftruncate(fd, int64(l.total())); err != nil {
		err = fmt.Errorf("size memfd to %d bytes: %w", l.total(), err)
	} else if _, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		err = fmt.Errorf("seal memfd: %w", err)
	} else if err = unix.Fallocate(fd, 0, 0, int64(l.control())); err != nil {
		err = fmt.Errorf("allocate %d bytes of shared memory: %w", l.control(), err)
	}
	if err != nil {
		return -1, errors.Join(err, closeFile(fd))
	}
	return fd, nil
}

// find opens the memory that another process of this host has as descriptor fd, if it is that of the nonce.
func find(pid, fd int, nonce []byte) (int, error) {
	path := "/proc/" + strconv.Itoa(pid) + "/fd/" + strconv.Itoa(fd)
	name, err := os.Readlink(path) // before it is opened: to open a stranger's device may do something
	if err != nil {
		return -1, fmt.Errorf("find the memory: %w", err)
	}
	if want := "/memfd:" + memoryName(nonce) + " (deleted)"; name != want {
		return -1, fmt.Errorf("find the memory: %s is %q, not %q", path, name, want)
	}
	got, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return -1, fmt.Errorf("open %s: %w", path, err)
	}
	return got, nil
}

// attach maps memory that was found or made.
func attach(l layout, fd int) (*mapping, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("look at shared memory: %w", err)
	}
	if st.Size < 0 || uint64(st.Size) != l.total() {
		return nil, fmt.Errorf("shared memory has %d bytes, want %d", st.Size, l.total())
	}
	got, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil {
		return nil, fmt.Errorf("look at the seals of shared memory: %w", err)
	}
	if got&unix.F_SEAL_SHRINK == 0 {
		return nil, fmt.Errorf("shared memory may shrink: seals %#x", got)
	}
	b, err := unix.Mmap(fd, 0, int(l.total()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes of shared memory: %w", l.total(), err)
	}
	return view(l, b), nil
}

// claim leaves the nonce of a rank as the sign that it has mapped the memory, and its process id.
func (m *mapping) claim(rank int, nonce []byte) {
	copy(m.ranks[rank].nonce, nonce)
	m.ranks[rank].pid.Store(uint32(os.Getpid()))
}

func (m *mapping) claimed(rank int, nonce []byte) bool {
	return bytes.Equal(m.ranks[rank].nonce, nonce)
}

func (m *mapping) unmap() error {
	if err := unix.Munmap(m.bytes); err != nil {
		return fmt.Errorf("unmap shared memory: %w", err)
	}
	return nil
}

// populate makes page tables now rather than at first use; on an older kernel that cannot, then.
func populate(b []byte) { _ = unix.Madvise(b, unix.MADV_POPULATE_WRITE) }

func closeFile(fd int) error {
	if err := unix.Close(fd); err != nil {
		return fmt.Errorf("close shared memory: %w", err)
	}
	return nil
}
