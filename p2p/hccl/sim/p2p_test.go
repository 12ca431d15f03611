package sim

import "testing"

func TestPingPong(t *testing.T) {
	dir := simulator(t)
	world{exe: program(t, dir, "pingpong"), dir: dir, size: 2}.run(t)
}
