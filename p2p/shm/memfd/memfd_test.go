package memfd_test

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"hcclps/p2p/shm/memfd"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wants(t *testing.T, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("error %v, want %q in it", err, text)
	}
}

// What one mapping writes another reads, also when the descriptors are closed.
func TestMemoryIsShared(t *testing.T) {
	const size = 1 << 20
	made, err := memfd.Create("hcclps-test-shared", size, 4096)
	check(t, err)
	found, err := memfd.Find(os.Getpid(), made, "hcclps-test-shared")
	check(t, err)
	a, err := memfd.Map(made, size)
	check(t, err)
	b, err := memfd.Map(found, size)
	check(t, err)
	check(t, memfd.Close(made))
	check(t, memfd.Close(found))
	memfd.Populate(a[:4096])
	a[size-1] = 7
	if b[size-1] != 7 {
		t.Errorf("another mapping has %d, want 7", b[size-1])
	}
	check(t, memfd.Unmap(a))
	check(t, memfd.Unmap(b))
}

// Neither a stranger's descriptor, nor memory of another size, nor memory that its maker could take away is mapped.
func TestWhatIsNotTheMemoryIsRefused(t *testing.T) {
	made, err := memfd.Create("hcclps-test-refused", 8192, 0x1000)
	check(t, err)
	defer memfd.Close(made)
	_, err = memfd.Find(os.Getpid(), made, "hcclps-test-other")
	wants(t, err, `not "/memfd:hcclps-test-other (deleted)"`)
	_, err = memfd.Find(os.Getpid(), 0, "hcclps-test-refused")
	wants(t, err, "find shared memory")
	_, err = memfd.Find(os.Getpid(), 1<<20, "hcclps-test-refused")
	wants(t, err, "find shared memory")
	_, err = memfd.Map(made, 4096)
	wants(t, err, "has 8192 bytes, want 4096")
	if err := unix.Ftruncate(made, 4096); err == nil {
		t.Error("it could be made smaller")
	}

	loose, err := unix.MemfdCreate("hcclps-test-loose", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	check(t, err)
	defer memfd.Close(loose)
	check(t, unix.Ftruncate(loose, 4096))
	_, err = memfd.Map(loose, 4096)
	wants(t, err, "may shrink")
}
