package worker

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hcclps/compress"
	"hcclps/ps/optim"
	"hcclps/ps/update"
)

// Compression says how gradients travel, table by table, by the name of a codec that compress.Parse understands: none, fp16, bf16, int8, onebit, twobit[:T],
// topk[:SHARE] or randomk[:SHARE]; or auto, which chooses by what is measured. What a code does not hold is added to the table's next gradient. Scales are of
// what travels together: with a codec, bits depend also on the numbers of shards and of parts a step.
//
// An optimizer sees what was decoded. The second moments of adam are too even then with onebit and twobit, and small
// ones too small: amsgrad and lazy_adam lose less. onebit_adam, for dense tensors of AllReduce and Hybrid, takes whole
// gradients for its freeze_step steps, and then sends momenta in this codec, onebit if none is named; off is an error.
type Compression struct {
	All    string            // of tables that are not named; "": none
	Tables map[string]string // by a table's name
}

// ParseCompression reads "CODEC", "TABLE=CODEC,..." or both: "onebit,user=fp16". off is none.
func ParseCompression(s string) (Compression, error) {
	var c Compression
	if s == "" {
		return c, nil
	}
	for part := range strings.SplitSeq(s, ",") {
		if part == "" {
			return c, fmt.Errorf("compression %q: a codec is missing at a comma", s)
		}
		table, name, named := strings.Cut(part, "=")
		if !named {
			if c.All != "" {
				return c, fmt.Errorf("compression %q: a codec for all tables is there twice", s)
			}
			c.All = part
			continue
		}
		if _, twice := c.Tables[table]; twice || table == "" || name == "" {
			return c, fmt.Errorf("compression %q: want each table by its name, once, and a codec", s)
		}
		if c.Tables == nil {
			c.Tables = map[string]string{}
		}
		c.Tables[table] = name
	}
	return c, c.validate()
}

func (c Compression) validate() error {
	_, err := codecName(c.All)
	errs := []error{err}
	for _, table := range slices.Sorted(maps.Keys(c.Tables)) {
		if _, err := codecName(c.Tables[table]); err != nil {
			errs = append(errs, fmt.Errorf("table %q: %w", table, err))
		}
	}
	return errors.Join(errs...)
}

// of is the codec of a table, as its description has it; own is what the model says.
func (c Compression) of(table, own string) (string, error) {
	return codecName(c.said(table, own))
}

// said is what of is made of.
func (c Compression) said(table, own string) string { return cmp.Or(own, c.Tables[table], c.All) }

// known wants every table that is named to exist.
func (c Compression) known(tables map[string]*handle) error {
	for _, name := range slices.Sorted(maps.Keys(c.Tables)) {
		if tables[name] == nil {
			return fmt.Errorf("compression names table %q, which does not exist: there are %q", name, slices.Sorted(maps.Keys(tables)))
		}
	}
	return nil
}

// names says whether it says something of a table.
func (c Compression) names(table string) bool { return c.All != "" || c.Tables[table] != "" }

// codecName is the name of a codec as tables have it: nothing for none, and parameters in one form.
func codecName(s string) (string, error) {
	switch s {
	case "", "off", "none":
		return "", nil
	case update.Auto:
		return s, nil
	}
	c, err := compress.Parse(s)
	if err != nil {
		name, _, _ := strings.Cut(s, ":")
		if nearest := optim.Nearest(name, compress.Names()); nearest != name {
			err = fmt.Errorf("%w; nearest is %q", err, nearest)
		}
		return "", err
	}
	return c.String(), nil
}

// Automatic says whether the codec of some table is chosen by what is measured: then two runs need not have the same bits.
func (c Compression) Automatic() bool {
	if c.All == update.Auto {
		return true
	}
	for _, name := range c.Tables {
		if name == update.Auto {
			return true
		}
	}
	return false
}
