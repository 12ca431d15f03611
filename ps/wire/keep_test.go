package wire_test

import (
	"strings"
	"testing"

	"hcclps/ps/wire"
)

func TestEvictIsParsed(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "ttl:24h0m0s", "ttl:1000steps", "ttl:1000steps,ttl:1h0m0s,lfu:8,l2:0.5,rows:5000,bytes:9007199254740992"} {
		e, err := wire.ParseEvict(s)
		if err != nil || e.String() != s {
			t.Errorf("%q: %q, %v", s, e, err)
		}
	}
	if e, err := wire.ParseEvict("none"); err != nil || e != (wire.Evict{}) {
		t.Errorf("none: %v, %v", e, err)
	}
	if a, err := wire.ParseAdmit("all"); err != nil || a != (wire.Admit{}) {
		t.Errorf("all: %v, %v", a, err)
	}
	for _, s := range []string{
		"rows:5000,rows:6000", "rows:5000,rows:5000", "ttl:1h,ttl:2h", "ttl:5steps,ttl:6steps", "l2:1,l2:2", "lfu:8,lfu:9", "bytes:1e6,bytes:2e6",
		"rows", "rows:0", "l2:0", "ttl:0s", "age:4", ",", "rows:1e16", "bytes:NaN",
	} {
		if e, err := wire.ParseEvict(s); err == nil {
			t.Errorf("%q was taken as %q", s, e)
		}
	}
}

func TestKindsAreThoseThatAreParsed(t *testing.T) {
	t.Parallel()
	for _, kind := range wire.EvictKinds() {
		if e, err := wire.ParseEvict(kind + ":5000steps"); kind == "ttl" && (err != nil || e == wire.Evict{}) {
			t.Errorf("%s: %v", kind, err)
		}
		if e, err := wire.ParseEvict(kind + ":5000"); kind != "ttl" && (err != nil || e == wire.Evict{}) {
			t.Errorf("%s: %v", kind, err)
		}
	}
	for _, kind := range wire.AdmitKinds() {
		if a, err := wire.ParseAdmit(kind + ":1"); err != nil || a.Kind != kind {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func TestEvictBoundsItsBudget(t *testing.T) {
	t.Parallel()
	for _, e := range []wire.Evict{{Rows: 1 << 63}, {Rows: 1<<53 + 1}, {Bytes: 1 << 63}} {
		if err := e.Validate(); err == nil || !strings.Contains(err.Error(), "at most 9007199254740992") {
			t.Errorf("%+v: %v", e, err)
		}
	}
	if err := (wire.Evict{Rows: 1 << 53, Bytes: 1 << 53}).Validate(); err != nil {
		t.Error(err)
	}
}
