package p2p_test

import (
	"testing"

	"hcclps/p2p"
)

func TestBufferKinds(t *testing.T) {
	host := p2p.Bytes([]byte("abc"))
	if host.IsDevice() || host.Len() != 3 || string(host.Host()) != "abc" || host.DevicePointer() != 0 || host.DeviceID() != -1 {
		t.Errorf("host memory: %+v", host)
	}
	device := p2p.Device(0x1000, 5, 0)
	if !device.IsDevice() || device.Len() != 5 || device.Host() != nil || device.DevicePointer() != 0x1000 || device.DeviceID() != 0 {
		t.Errorf("device memory: %+v", device)
	}
	var zero p2p.Buffer
	if zero.IsDevice() || zero.Len() != 0 || zero.DeviceID() != -1 {
		t.Errorf("zero value: %+v", zero)
	}
}
