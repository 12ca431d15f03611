package acl

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/ebitengine/purego"
)

// EnvLib names a folder with the CANN libraries, or one library that has all symbols, such as the simulator.
const EnvLib = "HCCLPS_CANN_LIB"

var (
	// ErrNoLibrary means that the CANN libraries are not on this host, or cannot be loaded.
	ErrNoLibrary = errors.New("no CANN library")
	// ErrNoSymbol means that the library lacks a function: it is too old or not what it is named after.
	ErrNoSymbol = errors.New("no such function in the CANN library")
)

// Lib is the loaded libraries. Any number of goroutines may use it, each call by the rules of the package.
type Lib struct {
	addr  [symbolCount]uintptr // 0 where the library lacks the function
	files []string
}

// The files that hold the functions of a library, in the order to try.
var libFiles = [...][]string{ //nolint:gochecknoglobals // a constant table
	runtimeLib: {"libascendcl.so", "libacl_rt.so"},
	hcclLib:    {"libhccl.so", "libhcomm.so"},
}

// Load opens the libraries of where, a folder or one file. If it is empty, the variable HCCLPS_CANN_LIB is taken
// in its place; if that is empty too, the folders that CANN's set_env.sh names, then the loader's own search path, then
// the places where CANN installs itself. It fails with ErrNoLibrary or ErrNoSymbol. The libraries stay loaded.
func Load(where string) (*Lib, error) {
	if where == "" {
		where = os.Getenv(EnvLib)
	}
	if where != "" {
		lib, err := loadFrom(where)
		if err != nil {
			return nil, fmt.Errorf("load CANN from %s: %w", where, err)
		}
		return lib, nil
	}
	var causes []string
	for _, dir := range searchPath() {
		lib, err := loadFrom(dir)
		if err == nil {
			return lib, nil
		}
		if errors.Is(err, ErrNoSymbol) {
			return nil, fmt.Errorf("load CANN: %w", err)
		}
		causes = append(causes, err.Error())
	}
	return nil, fmt.Errorf("load CANN: %w: source CANN's set_env.sh, or name the folder of libhccl.so in %s (%s)",
		ErrNoLibrary, EnvLib, strings.Join(causes, "; "))
}

// searchPath is where to look without being told; "" is the loader's own search path.
func searchPath() []string {
	var dirs []string
	for _, name := range []string{"ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"} {
		if home := os.Getenv(name); home != "" {
			dirs = append(dirs, filepath.Join(home, "lib64"))
		}
	}
	dirs = append(dirs, "")
	for _, home := range []string{"/usr/local/Ascend/ascend-toolkit/latest", "/usr/local/Ascend/cann"} {
		for _, sub := range []string{"lib64", runtime.GOARCH + "-linux/lib64"} {
			if dir := filepath.Join(home, sub); isDir(dir) {
				dirs = append(dirs, dir)
			}
		}
	}
	return dirs
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// loadFrom opens the libraries of a folder, or one file for all.
func loadFrom(where string) (*Lib, error) {
	lib := &Lib{}
	var handles [2][]uintptr
	if where != "" && !isDir(where) {
		h, err := purego.Dlopen(where, purego.RTLD_NOW|purego.RTLD_GLOBAL)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNoLibrary, err)
		}
		lib.files = []string{where}
		handles[runtimeLib], handles[hcclLib] = []uintptr{h}, []uintptr{h}
	} else {
		for kind, names := range libFiles {
			hs, err := lib.open(where, names)
			if err != nil {
				return nil, err
			}
			handles[kind] = hs
		}
	}
	return lib, lib.resolve(handles)
}

// open opens those of the files that are there, at least one.
func (l *Lib) open(dir string, names []string) ([]uintptr, error) {
	var handles []uintptr
	var causes []string
	for _, name := range names {
		h, err := purego.Dlopen(filepath.Join(dir, name), purego.RTLD_NOW|purego.RTLD_GLOBAL)
		if err != nil {
			causes = append(causes, err.Error())
			continue
		}
		handles = append(handles, h)
		l.files = append(l.files, filepath.Join(dir, name))
	}
	if len(handles) == 0 {
		return nil, fmt.Errorf("%w: %s", ErrNoLibrary, strings.Join(causes, "; "))
	}
	return handles, nil
}

// resolve finds every symbol, in the first library that has it.
func (l *Lib) resolve(handles [2][]uintptr) error {
	var missing []string
	for s := range symbolCount {
		if s == lastRequired {
			continue
		}
		for _, h := range handles[s.library()] {
			if addr, err := purego.Dlsym(h, s.String()); err == nil {
				l.addr[s] = addr
				break
			}
		}
		if l.addr[s] == 0 && s < lastRequired {
			missing = append(missing, s.String())
		}
	}
	if missing != nil {
		return fmt.Errorf("%w: %s lacks %s", ErrNoSymbol, strings.Join(l.files, ", "), strings.Join(missing, ", "))
	}
	return nil
}

// Files are the libraries in use.
func (l *Lib) Files() []string { return l.files }

// Has says whether the library has a function, by its C name. Names that are not bound are not known to it.
func (l *Lib) Has(name string) bool {
	for s, n := range symbolNames {
		if n == name {
			return l.addr[s] != 0
		}
	}
	return false
}

// Setenv sets a variable where the C libraries read it. They read most of them when the first communicator is made.
func (l *Lib) Setenv(name, value string) error {
	if err := os.Setenv(name, value); err != nil {
		return fmt.Errorf("set %s: %w", name, err)
	}
	setenv, err := purego.Dlsym(purego.RTLD_DEFAULT, "setenv")
	if err != nil {
		return fmt.Errorf("set %s: %w", name, err)
	}
	key, text := append([]byte(name), 0), append([]byte(value), 0)
	callSetenv(setenv, key, text)
	return nil
}
