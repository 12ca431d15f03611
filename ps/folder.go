package ps

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// FolderRecord is what a cluster that lives in one folder alone wrote into a
// file there at its first start: such as a name for its logs in memory that no
// other folder's were ever found under, one on the same path included. As long
// as no server has data in the folder it is draw's, written down on disk before
// it is returned; where servers have data and nothing is written it is "".
func FolderRecord(dir, file string, draw func() string) (string, error) {
	stores, err := fs.Glob(os.DirFS(dir), "*/store")
	if err != nil {
		return "", fmt.Errorf("look for servers in %s: %w", dir, err)
	}
	path := filepath.Join(dir, file)
	if len(stores) > 0 {
		b, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("read record of cluster: %w", err)
		}
		return strings.TrimSpace(string(b)), nil
	}
	text := draw()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make folder of cluster: %w", err)
	}
	if err := writeSynced(path, text+"\n"); err != nil {
		return "", fmt.Errorf("record %s in %s: %w", text, path, err)
	}
	return text, nil
}

// DrawName is a name of so many letters and digits, at random.
func DrawName(letters int) string { return strings.ToLower(rand.Text()[:letters]) }

// writeSynced writes a small file whole, and has it on disk when it returns.
func writeSynced(path, text string) error {
	tmp := path + ".tmp"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
