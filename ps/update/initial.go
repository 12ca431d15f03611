package update

import (
	"encoding/json"
	"fmt"

	"hcclps/ps/wire"
)

// Initial is the weights, then the optimizer slots, of a row that no gradient has reached. The schema is a wire.Table as JSON, as checkpoints have it.
func Initial(schema []byte, key uint64) ([]float32, error) {
	var spec wire.Table
	if err := json.Unmarshal(schema, &spec); err != nil {
		return nil, fmt.Errorf("read the description of a table: %w", err)
	}
	t, err := New(spec, Config{})
	if err != nil {
		return nil, err
	}
	defer t.Close() //nolint:errcheck // it has no rows
	of := t.Rows.Spec()
	row := make([]float32, of.Dim+of.Slots)
	t.Rows.Gather([]uint64{key}, row[:of.Dim])
	copy(row[of.Dim:], of.SlotInit) // none: zeros
	return row, nil
}
