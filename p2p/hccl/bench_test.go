package hccl_test

import (
	"errors"
	"fmt"
	"testing"

	"hcclps/p2p"
	"hcclps/p2p/hccl"
)

// BenchmarkComm moves messages one way over the simulator, whose copies and threads are most of the time: it shows what
// staging and agreeing on the order cost, not what an NPU does.
func BenchmarkComm(b *testing.B) {
	devices := [2]*hccl.Device{device(b, hccl.Config{Device: 0}), device(b, hccl.Config{Device: 1})}
	comms := mustPair(b, devices)
	run(b, comms)
	ctx := bound(b)
	for _, n := range []int{8, 64 << 10, 16 << 20} {
		host := [2]p2p.Buffer{p2p.Bytes(make([]byte, n)), p2p.Bytes(make([]byte, n))}
		var pinned, dev [2]p2p.Buffer
		for r := range comms {
			var err error
			if pinned[r], err = comms[r].Alloc(n); err != nil {
				b.Fatal(err)
			}
			dev[r] = onDevice(b, devices[r], make([]byte, n))
		}
		for i, buf := range [][2]p2p.Buffer{host, pinned, dev} {
			b.Run(fmt.Sprintf("%s/%d", []string{"host", "pinned", "device"}[i], n), func(b *testing.B) {
				b.SetBytes(int64(n))
				for b.Loop() {
					recv := comms[1].Irecv(0, buf[1])
					if err := errors.Join(comms[0].Isend(1, buf[0]).Wait(ctx), recv.Wait(ctx)); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
