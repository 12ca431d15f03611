package region

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// process is that of a rank; the zero value is taken for alive.
type process struct {
	pidfd int
	dead  bool
}

// watch opens the process of a rank. While it is open its number does not become another's.
func watch(pid int) process {
	if pid == os.Getpid() {
		return process{}
	}
	fd, err := unix.PidfdOpen(pid, 0)
	switch {
	case err == nil:
		return process{pidfd: fd}
	case errors.Is(err, unix.ESRCH):
		return process{dead: true}
	default: // a kernel without: who waits hears of its death from others
		return process{}
	}
}

func (p process) alive() bool {
	if p.dead || p.pidfd == 0 {
		return !p.dead
	}
	fds := []unix.PollFd{{Fd: int32(p.pidfd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err != nil || n == 0 // interrupted: ask again later
}

func (p process) close() error {
	if p.pidfd == 0 {
		return nil
	}
	if err := unix.Close(p.pidfd); err != nil {
		return fmt.Errorf("close pidfd: %w", err)
	}
	return nil
}
