package world_test

import (
	"testing"

	"hcclps/p2p/world"
)

func env(pairs ...string) func(string) (string, bool) {
	m := make(map[string]string)
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return func(name string) (string, bool) { s, ok := m[name]; return s, ok }
}

func TestEnv(t *testing.T) {
	c, err := world.Env(env("RANK", "3", "WORLD_SIZE", "8", "LOCAL_RANK", "1", "MASTER_ADDR", "::1", "MASTER_PORT", "29500"))
	check(t, err)
	if c.Rank != 3 || c.Size != 8 || c.LocalRank != 1 || c.Master != "[::1]:29500" {
		t.Errorf("read %+v", c)
	}
	if c, err = world.Env(env("RANK", "0", "WORLD_SIZE", "1", "MASTER_ADDR", "a", "MASTER_PORT", "1")); err != nil || c.Master != "a:1" || c.LocalRank != 0 {
		t.Errorf("read %+v, %v", c, err)
	}
	_, err = world.Env(env("RANK", "x", "LOCAL_RANK", "-1", "MASTER_ADDR", "", "MASTER_PORT", "65536"))
	want(t, err, err, `RANK="x" is not a number in 0..65535`, "WORLD_SIZE is not set", `LOCAL_RANK="-1"`, "MASTER_ADDR is not set", `MASTER_PORT="65536"`)
	_, err = world.Env(env("RANK", "8", "WORLD_SIZE", "8", "MASTER_ADDR", "a", "MASTER_PORT", "1"))
	want(t, err, err, "RANK=8 is not below WORLD_SIZE=8")
}
