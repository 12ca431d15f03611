// Package memfd is memory that processes of one host share and that has no name in any file system: nothing of it stays when all of them are gone,
// however they end. One process makes it, the others find it as a descriptor of that one, and all map it.
//
// Memory is sealed when it is made, and mapped only if it is: nobody can take it away from under the others, which would be a fatal signal.
package memfd

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// Create makes memory of size bytes, of which the first backed are there at once and the rest when it is used, and returns its descriptor. The name is what
// Find knows it by.
func Create(name string, size, backed uint64) (fd int, err error) {
	fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return -1, fmt.Errorf("memfd_create: %w", err)
	}
	if err = unix.Ftruncate(fd, int64(size)); err != nil {
		err = fmt.Errorf("size memfd to %d bytes: %w", size, err)
	} else if _, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		err = fmt.Errorf("seal memfd: %w", err)
	} else if err = unix.Fallocate(fd, 0, 0, int64(backed)); err != nil {
		err = fmt.Errorf("allocate %d bytes of shared memory: %w", backed, err)
	}
	if err != nil {
		return -1, errors.Join(err, Close(fd))
	}
	return fd, nil
}

// Find opens the memory that another process of this host has as descriptor fd, if it is of that name.
func Find(pid, fd int, name string) (int, error) {
	path := "/proc/" + strconv.Itoa(pid) + "/fd/" + strconv.Itoa(fd)
	is, err := os.Readlink(path) // before it is opened: to open a stranger's device may do something
	if err != nil {
		return -1, fmt.Errorf("find shared memory: %w", err)
	}
	if want := "/memfd:" + name + " (deleted)"; is != want {
		return -1, fmt.Errorf("find shared memory: %s is %q, not %q", path, is, want)
	}
	got, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return -1, fmt.Errorf("open %s: %w", path, err)
	}
	return got, nil
}

// Map maps memory that was made, found or received, if it has size bytes and stays.
func Map(fd int, size uint64) ([]byte, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("look at shared memory: %w", err)
	}
	if st.Size < 0 || uint64(st.Size) != size {
		return nil, fmt.Errorf("shared memory has %d bytes, want %d", st.Size, size)
	}
	got, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil {
		return nil, fmt.Errorf("look at the seals of shared memory: %w", err)
	}
	if got&unix.F_SEAL_SHRINK == 0 {
		return nil, fmt.Errorf("shared memory may shrink: seals %#x", got)
	}
	b, err := unix.Mmap(fd, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes of shared memory: %w", size, err)
	}
	return b, nil
}

// Populate makes page tables of mapped memory now rather than at first use; on an older kernel that cannot, then.
func Populate(b []byte) { _ = unix.Madvise(b, unix.MADV_POPULATE_WRITE) }

// Unmap ends a mapping.
func Unmap(b []byte) error {
	if err := unix.Munmap(b); err != nil {
		return fmt.Errorf("unmap shared memory: %w", err)
	}
	return nil
}

// Close closes a descriptor; what is mapped stays.
func Close(fd int) error {
	if err := unix.Close(fd); err != nil {
		return fmt.Errorf("close shared memory: %w", err)
	}
	return nil
}
