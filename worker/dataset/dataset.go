package dataset

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
)

// WindowRows is the number of rows of the stream that are shuffled together.
const WindowRows = 65536

// Features is the name of the feature of a libsvm file.
const Features = "features"

// Source is a stream of batches, epoch after epoch. One goroutine at a time may
// call it.
type Source interface {
	// Next fills b with the next batch and reports true. It reports false, once,
	// at the end of each epoch; the call after that begins the next epoch.
	// After an error every call returns that error until Seek succeeds.
	Next(b *Batch) (bool, error)
	// Seek makes Next continue at the given batch of the given epoch, both from
	// 0. A batch past the end of the epoch stands for the end of the epoch.
	Seek(epoch, batch int) error
	// Close releases the open files.
	Close() error
}

// Split selects the rows of a stream for training or for testing.
type Split struct {
	Every int  // row i of the stream, from 0, is test when i % Every == Every-1; 0 means no split
	Test  bool // take the test rows; false takes the others
}

// takes reports whether row i of the stream is selected.
func (s Split) takes(i int) bool {
	return s.Every == 0 || (i%s.Every == s.Every-1) == s.Test
}

// Config says what to read. Zero values are defaults.
type Config struct {
	Format    string       // one of Formats; empty: libsvm
	Paths     []string     // files, read in this order as one stream; at least one
	Header    string       // of formats with columns: yes, no, auto (the default: see the package comment)
	Separator string       // of formats with columns; empty: that of the format
	Label     Label        // overrides the label of the schema
	NoLabel   bool         // the data has no label: labels are 0. Needs a Schema
	Schema    *Schema      // what the features are; nil: inferred
	HashBits  int          // overrides Schema.HashBits, unless 0
	Batch     int          // rows a batch; 0 means 256
	Seed      uint64       // of the order of rows
	InOrder   bool         // keep the order of the files: for evaluation and prediction
	Split     Split        // which rows to take
	SkipBad   bool         // count malformed rows instead of failing on the first
	Logger    *slog.Logger // nil discards
}

// Validate reports every fault of c, joined.
func (c Config) Validate() error {
	var faults []error
	switch {
	case c.Format == "parquet":
		faults = append(faults, fmt.Errorf("format parquet cannot be read yet: convert the data to one of %s", strings.Join(Formats(), ", ")))
	case c.Format != "" && !slices.Contains(Formats(), c.Format):
		faults = append(faults, fmt.Errorf("unknown format %q: want one of %s", c.Format, strings.Join(Formats(), ", ")))
	}
	faults = append(faults, c.validateColumns(), c.Label.validate())
	if c.Schema != nil {
		faults = append(faults, c.Schema.Validate())
	}
	if len(c.Paths) == 0 {
		faults = append(faults, errors.New("no data file given"))
	}
	for _, p := range c.Paths {
		if err := checkFile(p); err != nil {
			faults = append(faults, err)
		}
	}
	if c.Batch < 0 {
		faults = append(faults, fmt.Errorf("batch size %d: want 1 or more", c.Batch))
	}
	if c.Split.Every < 0 || c.Split.Every == 1 {
		faults = append(faults, fmt.Errorf("split every=%d: want 2 or more", c.Split.Every))
	}
	return errors.Join(faults...)
}

// validateColumns looks at what only some formats take.
func (c Config) validateColumns() error {
	tabular := isTabular(c.Format)
	switch {
	case c.Header != "" && !slices.Contains([]string{headerAuto, headerYes, headerNo}, c.Header):
		return fmt.Errorf("header %q: want auto, yes or no", c.Header)
	case !tabular && (c.Header != "" || c.Separator != "" || c.NoLabel):
		return fmt.Errorf("header, separator and data without label are for formats of columns: %s", strings.Join(tabularFormats(), ", "))
	case strings.ContainsAny(c.Separator, " \"\r\n\x00"):
		return fmt.Errorf("separator %q: want no blank, quote, line end or NUL", c.Separator)
	case c.NoLabel && c.Schema == nil:
		return errors.New("data without label needs a schema: features are inferred from training data")
	case !tabular && c.HashBits != 0:
		return fmt.Errorf("hash bits %d: ids of format %s are numbers that are not hashed: they are for formats of columns: %s", c.HashBits, cmp.Or(c.Format, FormatLibsvm), strings.Join(tabularFormats(), ", "))
	case c.HashBits < 0 || c.HashBits > 64:
		return fmt.Errorf("hash bits %d: want 1 to 64", c.HashBits)
	}
	return nil
}

// checkFile refuses early what could never be read.
func checkFile(path string) error {
	if path == "" {
		return errors.New("empty name of a data file")
	}
	st, err := os.Stat(path)
	switch {
	case err != nil:
		return fmt.Errorf("find data file: %w", err)
	case st.IsDir():
		return fmt.Errorf("open data file %s: it is a directory", path)
	case !st.Mode().IsRegular():
		return fmt.Errorf("open data file %s: it is no regular file: it is read once an epoch, and more than once", path)
	case st.Size() == 0:
		return fmt.Errorf("open data file %s: it is empty", path)
	}
	return nil
}
