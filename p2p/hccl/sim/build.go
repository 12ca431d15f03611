package sim

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// Library is the name of the file that Build makes.
const Library = "libhccl_sim.so"

//go:embed csrc
var sources embed.FS

// ErrNoCompiler is returned, wrapped, when there is no C compiler to build the simulator with.
var ErrNoCompiler = errors.New("no C compiler: install gcc or set CC")

// links are the names programs are linked to, or open.
func links() []string {
	return []string{"libhccl.so", "libhcomm.so", "libascendcl.so", "libacl_rt.so"}
}

// Build compiles the simulator into dir, which exists, and returns the path of its library. The compiler is $CC, or cc.
// It takes a second or two; several builds may run at once in different directories.
func Build(ctx context.Context, dir string) (lib string, err error) { return build(ctx, dir) }

// build is Build with more arguments for the compiler.
func build(ctx context.Context, dir string, more ...string) (string, error) {
	cc, err := compiler()
	if err != nil {
		return "", fmt.Errorf("build hccl simulator: %w", err)
	}
	src, err := os.MkdirTemp(dir, "src-")
	if err != nil {
		return "", fmt.Errorf("build hccl simulator: %w", err)
	}
	defer os.RemoveAll(src) //nolint:errcheck // a folder left over harms nobody
	files, err := unpack(src, filepath.Join(dir, "include"))
	if err != nil {
		return "", fmt.Errorf("build hccl simulator: %w", err)
	}
	out := filepath.Join(src, Library)
	args := []string{
		"-std=c11", "-D_GNU_SOURCE", "-O2", "-g", "-fPIC", "-shared", "-pthread", "-fvisibility=hidden",
		"-Wl,-soname," + Library, "-I", src, "-I", filepath.Join(dir, "include"), "-o", out,
	}
	if err := run(ctx, cc, append(append(args, more...), files...)); err != nil {
		return "", fmt.Errorf("build hccl simulator: %w", err)
	}
	lib := filepath.Join(dir, Library)
	if err := os.Rename(out, lib); err != nil {
		return "", fmt.Errorf("build hccl simulator: %w", err)
	}
	return lib, link(dir)
}

// compiler splits $CC into the program and its arguments.
func compiler() ([]string, error) {
	cc := strings.Fields(cmp.Or(os.Getenv("CC"), "cc"))
	if _, err := exec.LookPath(cc[0]); err != nil {
		return nil, fmt.Errorf("%w (%w)", ErrNoCompiler, err)
	}
	return cc, nil
}

func run(ctx context.Context, cc, args []string) error {
	cmd := exec.CommandContext(ctx, cc[0], append(cc[1:len(cc):len(cc)], args...)...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("run %s: %w: %s", cc[0], err, bytes.TrimSpace(said.Bytes()))
	}
	return nil
}

// unpack writes the sources to src and the public headers to include, and returns the files to compile.
func unpack(src, include string) (files []string, err error) {
	err = fs.WalkDir(sources, "csrc", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := sources.ReadFile(name)
		if err != nil {
			return err
		}
		to := filepath.Join(src, strings.TrimPrefix(name, "csrc/"))
		if header, ok := strings.CutPrefix(name, "csrc/include/"); ok {
			to = filepath.Join(include, header)
		}
		if path.Ext(name) == ".c" {
			files = append(files, to)
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		return os.WriteFile(to, text, 0o644)
	})
	return files, err
}

// link lays the names of the real libraries beside the simulator.
func link(dir string) error {
	for _, name := range links() {
		at := filepath.Join(dir, name)
		if err := os.Remove(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("build hccl simulator: %w", err)
		}
		if err := os.Symlink(Library, at); err != nil {
			return fmt.Errorf("build hccl simulator: %w", err)
		}
	}
	return nil
}
