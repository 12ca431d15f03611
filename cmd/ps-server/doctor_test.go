package main

import (
	"slices"
	"strings"
	"testing"

	"hcclps/cmd/internal/doctor"
)

func TestDoctorKnowsTheVariables(t *testing.T) {
	for _, name := range doctor.FlagVariables(app()) {
		if strings.HasPrefix(name, "HCCLPS_") && !slices.Contains(doctor.Variables(), name) {
			t.Errorf("doctor takes %s for mistyped: add it to its Variables", name)
		}
	}
}
