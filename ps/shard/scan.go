package shard

import (
	"hcclps/ps/table"
	"hcclps/ps/wire"
)

const (
	// maxScan bounds the body of an answer to a scan, within one row.
	maxScan = 4 << 20
	// maxScanRows bounds its rows.
	maxScanRows = 1 << 16
)

// scanTable appends rows of a table in key order, in the form of wire.AppendRow,
// until limit rows or maxScan bytes are reached. limit 0 is no limit of rows.
func scanTable(dst []byte, t *tab, after uint64, first bool, limit int) []byte {
	spec := t.Rows.Spec()
	if fit := (maxScan-len(dst))/(4*(spec.Dim+spec.Slots)) + 1; limit <= 0 || fit < limit {
		limit = max(1, fit) // those that are looked for cost, also where they do not fit
	}
	t.Rows.Scan(after, first, limit, func(r table.Row) bool {
		dst = wire.AppendRow(dst, wire.Row{Key: r.Key, Step: r.Step, Sightings: r.Sightings, Writer: r.Writer, Values: r.Values})
		return len(dst) < maxScan
	})
	return dst
}
