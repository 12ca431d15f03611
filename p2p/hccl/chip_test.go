package hccl

import (
	"errors"
	"strings"
	"testing"
)

func TestFamilies(t *testing.T) {
	for soc, want := range map[string]family{
		"Ascend910": family910A, "Ascend910A": family910A, "Ascend910ProA": family910A, "Ascend910ProB": family910A,
		"Ascend910PremiumA": family910A, "Ascend910B1": family910B, "Ascend910B4": family910B, "Ascend910B2C": family910B,
		"Ascend910_9362": familyA3, "Ascend910_9392": familyA3, "Ascend310P3": family310P, "Ascend950PR": family950,
		"": familyUnknown, "Ascend1000": familyUnknown,
	} {
		if got := familyOf(soc); got != want {
			t.Errorf("%s: %s, want %s", soc, got, want)
		}
	}
}

func TestAgree(t *testing.T) {
	base := hello{Protocol: 1, Host: "a", Physical: 0, Chip: "Ascend910B3", Version: "1.13.0"}
	change := func(f func(*hello)) hello {
		h := base
		h.Rank, h.Physical = 1, 1
		f(&h)
		return h
	}
	old := base
	old.Chip = "Ascend910A"
	tests := []struct {
		a, b hello
		want error
		says string
	}{
		{base, change(func(*hello) {}), nil, ""},
		{base, change(func(h *hello) { h.Chip = "Ascend910B1" }), nil, ""},
		{base, change(func(h *hello) { h.Host, h.Physical = "b", 0 }), nil, ""},
		{base, change(func(h *hello) { h.Physical = 0 }), ErrRefused, "one rank a device"},
		{base, change(func(h *hello) { h.Rank = 0 }), ErrRefused, "rank 0"},
		{base, change(func(h *hello) { h.Protocol = 2 }), ErrRefused, "protocols"},
		{base, change(func(h *hello) { h.Version = "1.14.0" }), ErrRefused, "1.14.0"},
		{base, change(func(h *hello) { h.Simulator = "1" }), ErrRefused, "simulator"},
		{base, change(func(h *hello) { h.Chip = "Ascend910_9382" }), ErrChip, "families"},
		{base, change(func(h *hello) { h.Chip = "Ascend310P3" }), ErrChip, "310P"},
		{old, change(func(h *hello) { h.Chip, h.Physical = "Ascend910A", 3 }), nil, ""},
		{old, change(func(h *hello) { h.Chip, h.Physical = "Ascend910A", 4 }), ErrChip, "devices 0 and 4"},
		{old, change(func(h *hello) { h.Chip, h.Physical, h.Host = "Ascend910A", 4, "b" }), nil, ""},
	}
	for _, test := range tests {
		one, two := agree(test.a, test.b), agree(test.b, test.a)
		for _, err := range []error{one, two} {
			if (err == nil) != (test.want == nil) || !errors.Is(err, test.want) || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("%+v with %+v: %v, want %v", test.a, test.b, err, test.want)
			}
		}
	}
}

func TestPhysical(t *testing.T) {
	tests := []struct {
		logical int
		visible string
		want    int
	}{{0, "", 0}, {3, "", 3}, {0, "4,5", 4}, {1, "4, 5", 5}, {2, "4,5", 2}, {0, "x", 0}}
	for _, test := range tests {
		if got := physical(test.logical, test.visible); got != test.want {
			t.Errorf("device %d of %q: %d, want %d", test.logical, test.visible, got, test.want)
		}
	}
}
