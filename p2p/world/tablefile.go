package world

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// rereadAfter is how long a rank table that is still initializing is left alone.
const rereadAfter = time.Second

// LoadTable reads a rank table from a file, again and again until its status is completed or ctx ends. A file that is no table is an error at
// once, but not when it was one before: it is being written then.
func LoadTable(ctx context.Context, path string) (*Table, error) {
	was := false
	for {
		b, err := os.ReadFile(path)
		var t *Table
		if err == nil {
			t, err = ParseTable(b)
		}
		switch {
		case err != nil && !was:
			return nil, fmt.Errorf("load %s: %w", path, err)
		case err == nil && t.Completed:
			return t, nil
		case err == nil:
			was = true
			err = errors.New("its status is initializing")
		}
		if rest(ctx, rereadAfter); ctx.Err() != nil {
			return nil, fmt.Errorf("load %s: %w: %w", path, context.Cause(ctx), err)
		}
	}
}

// EnvTable reads the variables that HCCL's users set: RANK_TABLE_FILE names the table, RANK_ID says which rank this is, and RANK_SIZE, if it is there, how
// many there are. lookup is [os.LookupEnv]. It waits for the table as LoadTable does. basePort is explained at [Table.Config].
func EnvTable(ctx context.Context, lookup func(name string) (string, bool), basePort int) (Config, error) {
	v := variables{lookup: lookup}
	path, rank, size := v.text("RANK_TABLE_FILE"), v.number("RANK_ID", 0, MaxSize-1), v.optional("RANK_SIZE", 1, MaxSize)
	if err := errors.Join(v.faults...); err != nil {
		return Config{}, fmt.Errorf("read rank from the environment: %w", err)
	}
	t, err := LoadTable(ctx, path)
	if err != nil {
		return Config{}, err
	}
	if size > 0 && size != len(t.Ranks) {
		return Config{}, fmt.Errorf("RANK_SIZE=%d, %s has %d ranks", size, path, len(t.Ranks))
	}
	return t.Config(rank, basePort)
}
