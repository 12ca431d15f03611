package backend

import "testing"

// TestChoice is the table of who gets what.
func TestChoice(t *testing.T) {
	const here, there = 1, 2
	config := func(transport Transport, device string, strict bool) Config {
		return Config{Transport: transport, Device: device, NoFallback: strict}
	}
	for _, c := range []struct {
		name     string
		a, b     Config
		machines [2]uint64
		try      ways
		fallback bool
		better   bool
		err      bool
	}{
		{name: "auto on one host", a: config(Auto, "", false), b: config(Auto, "", false), machines: [2]uint64{here, here}, try: viaSHM, fallback: true},
		{name: "auto with devices on one host", a: config(Auto, "0", false), b: config(Auto, "1", false), machines: [2]uint64{here, here}, try: viaSHM, fallback: true},
		{name: "auto with devices on two hosts", a: config(Auto, "0", false), b: config(Auto, "0", false), machines: [2]uint64{here, there}, try: viaSHM, fallback: true, better: true},
		{name: "one device on two hosts", a: config(Auto, "0", false), b: config(Auto, "", false), machines: [2]uint64{here, there}, try: viaSHM, fallback: true},
		{name: "unknown machines", a: config(Auto, "0", false), b: config(Auto, "0", false), try: viaSHM, fallback: true, better: true},
		{name: "tcp by name", a: config(TCP, "", false), b: config(Auto, "", false), machines: [2]uint64{here, here}, try: viaTCP},
		{name: "tcp with a device", a: config(TCP, "0", false), b: config(Auto, "0", false), machines: [2]uint64{here, there}, try: viaTCP},
		{name: "shm by name", a: config(SHM, "", false), b: config(Auto, "", false), machines: [2]uint64{here, here}, try: viaSHM, fallback: true},
		{name: "shm alone", a: config(SHM, "", true), b: config(Auto, "", false), machines: [2]uint64{here, here}, try: viaSHM},
		{name: "shm alone against tcp", a: config(SHM, "", true), b: config(TCP, "", false), err: true},
		{name: "hccl by name on one host", a: config(HCCL, "0", false), b: config(Auto, "1", false), machines: [2]uint64{here, here}, try: viaTCP, better: true},
		{name: "hccl by name without a device there", a: config(HCCL, "0", false), b: config(Auto, "", false), machines: [2]uint64{here, there}, try: viaTCP},
		{name: "hccl against tcp", a: config(HCCL, "0", false), b: config(TCP, "0", false), machines: [2]uint64{here, there}, try: viaTCP},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := c.a.offer(c.machines[0]), c.b.offer(c.machines[1])
			for _, side := range [][2]offer{{a, b}, {b, a}} { // both ends decide alike
				try, fallback, err := first(side[0], side[1])
				if try != c.try || fallback != c.fallback || (err != nil) != c.err {
					t.Errorf("first: %v, fallback %v, %v; want %v, %v, error %v", try, fallback, err, c.try, c.fallback, c.err)
				}
				if got := better(side[0], side[1]); got != c.better {
					t.Errorf("better: %v, want %v", got, c.better)
				}
			}
		})
	}
}

func FuzzOffer(f *testing.F) {
	f.Add(offer{takes: viaTCP | viaSHM, machine: 7}.encode())
	f.Add(offer{takes: viaHCCL, named: true}.encode())
	f.Add([]byte("hcbk"))
	f.Fuzz(func(t *testing.T, b []byte) {
		o, err := decodeOffer(b)
		if err == nil && string(o.encode()) != string(b) {
			t.Errorf("%x decodes to %+v, which encodes to %x", b, o, o.encode())
		}
	})
}
