package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"gopkg.in/yaml.v3"
)

// maxFeaturesFile bounds a features file; a larger one is something else.
const maxFeaturesFile = 16 << 20

// ReadSchema reads and checks a features file. Side tables are found relative
// to its folder. Errors name file, line and column.
func ReadSchema(path string) (*Schema, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open features file: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFeaturesFile+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("read features file %s: %w", path, err)
	}
	if len(text) > maxFeaturesFile {
		return nil, fmt.Errorf("read features file %s: longer than %d MiB: is this a features file?", path, maxFeaturesFile>>20)
	}
	s, err := ParseSchema(path, text)
	if err != nil {
		return nil, err
	}
	for i := range s.Join {
		if j := &s.Join[i]; j.File != "" && !filepath.IsAbs(j.File) {
			j.File = filepath.Join(filepath.Dir(path), j.File)
		}
	}
	return s, nil
}

// ParseSchema is ReadSchema on text; name is that of the file in errors.
func ParseSchema(name string, text []byte) (*Schema, error) {
	s := &Schema{}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(s); errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read features file %s: it is empty", name)
	} else if err != nil {
		return nil, fmt.Errorf("read features file %s: %w", name, err)
	}
	if err := d.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read features file %s: want one document", name)
	}
	if err := s.locate(name, text); err != nil {
		return nil, fmt.Errorf("read features file %s: %w", name, err)
	}
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("check features file %s: %w", name, err)
	}
	return s, nil
}

// locate notes where each feature stands in the text, for errors.
func (s *Schema) locate(name string, text []byte) error {
	var doc struct {
		Features []yaml.Node `yaml:"features"`
	}
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return err
	}
	for i := range min(len(doc.Features), len(s.Features)) {
		n := doc.Features[i]
		s.Features[i].where = fmt.Sprintf("%s:%d:%d: ", name, n.Line, n.Column)
	}
	return nil
}

// YAML returns the schema as a features file, without what was fitted.
func (s *Schema) YAML() ([]byte, error) {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := errors.Join(e.Encode(s), e.Close()); err != nil {
		return nil, fmt.Errorf("write features file: %w", err)
	}
	return b.Bytes(), nil
}
