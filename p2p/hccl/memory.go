package hccl

import (
	"context"
	"fmt"

	"hcclps/p2p"
	"hcclps/p2p/hccl/acl"
)

// Alloc allocates n bytes of device memory, aligned to 64 and not zeroed. It waits for Run, and is slow: keep what it gives.
// Every Buffer of it is given back by Free, before Run ends.
func (d *Device) Alloc(ctx context.Context, n int) (p2p.Buffer, error) {
	if n <= 0 {
		return p2p.Buffer{}, fmt.Errorf("allocate %d bytes of device memory: the length must be positive", n)
	}
	var ptr uintptr
	err := d.onSteward(ctx, func() (err error) {
		ptr, err = d.lib.Malloc(n, acl.HugeFirst)
		return err
	}, func() { _ = d.lib.Free(ptr) })
	if err != nil {
		return p2p.Buffer{}, fmt.Errorf("allocate %d bytes on device %d: %w", n, d.cfg.Device, err)
	}
	return p2p.Device(ptr, n, d.cfg.Device), nil
}

// onSteward runs f on the steward. If the caller gives up before f has run, undo takes back what f did.
func (d *Device) onSteward(ctx context.Context, f func() error, undo func()) error {
	result := make(chan error)
	if !d.steward.post(func() {
		err := f()
		select {
		case result <- err:
		case <-ctx.Done():
			if err == nil {
				undo()
			}
		}
	}) {
		return ErrStopped
	}
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return fmt.Errorf("wait for the steward: %w", context.Cause(ctx))
	}
}

// Free gives memory of Alloc back. No transfer may use it any more.
func (d *Device) Free(ctx context.Context, b p2p.Buffer) error {
	err := d.owns(b)
	if err == nil {
		err = d.steward.do(ctx, func() error { return d.lib.Free(b.DevicePointer()) })
	}
	if err != nil {
		return fmt.Errorf("free %d bytes on device %d: %w", b.Len(), d.cfg.Device, err)
	}
	return nil
}

// Write copies host memory to the start of device memory, and waits for it.
func (d *Device) Write(ctx context.Context, to p2p.Buffer, from []byte) error {
	if err := d.copy(ctx, to, from, acl.HostToDevice); err != nil {
		return fmt.Errorf("write %d bytes to device %d: %w", len(from), d.cfg.Device, err)
	}
	return nil
}

// Read copies the start of device memory to host memory, and waits for it.
func (d *Device) Read(ctx context.Context, to []byte, from p2p.Buffer) error {
	if err := d.copy(ctx, from, to, acl.DeviceToHost); err != nil {
		return fmt.Errorf("read %d bytes from device %d: %w", len(to), d.cfg.Device, err)
	}
	return nil
}

func (d *Device) copy(ctx context.Context, dev p2p.Buffer, host []byte, kind acl.CopyKind) error {
	if err := d.owns(dev); err != nil {
		return err
	}
	if len(host) > dev.Len() {
		return fmt.Errorf("%d bytes for a buffer of %d: %w", len(host), dev.Len(), p2p.ErrLength)
	}
	for off := 0; off < len(host); off += d.cfg.Piece {
		part := host[off:min(off+d.cfg.Piece, len(host))]
		s, err := d.pool.get(ctx) // Go memory must not be seen by the runtime
		if err != nil {
			return err
		}
		if kind == acl.HostToDevice {
			copy(s.memory, part)
		}
		at := dev.DevicePointer() + uintptr(off)
		err = <-d.steward.start(func() error {
			if kind == acl.HostToDevice {
				return d.lib.Memcpy(at, s.host, len(part), kind)
			}
			return d.lib.Memcpy(s.host, at, len(part), kind)
		})
		if err == nil && kind == acl.DeviceToHost {
			copy(part, s.memory)
		}
		d.pool.put(s)
		if err != nil {
			return err
		}
	}
	return nil
}

// owns checks that a buffer lies on this device.
func (d *Device) owns(b p2p.Buffer) error {
	if !b.IsDevice() || b.DeviceID() != d.cfg.Device {
		return fmt.Errorf("use memory of device %d on device %d: %w", b.DeviceID(), d.cfg.Device, ErrMemory)
	}
	return nil
}
