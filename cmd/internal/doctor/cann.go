package doctor

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// LibraryVariable names a library, or a folder of libraries, to use in place of CANN: the simulator.
const LibraryVariable = "HCCLPS_CANN_LIB"

// library is a shared object that was found.
type library struct {
	path    string
	symbols map[string]bool
}

// cann is what was found of it.
type cann struct {
	hccl, runtime *library
	simulator     bool
	broken        error // it is there but cannot be used
}

// usable says whether HCCL can be loaded.
func (c cann) usable() bool { return c.hccl != nil && c.runtime != nil && c.broken == nil }

// needed are symbols without which a library is no HCCL for us. libhcomm.so has those of communicators from CANN 8.5 on.
func needed() []string {
	return []string{"HcclGetRootInfo", "HcclCommInitRootInfoConfig", "HcclCommDestroy", "HcclGetCommAsyncError", "HcclSend", "HcclRecv"}
}

// simulatorSymbol is exported by the simulator alone.
const simulatorSymbol = "hccl_sim_version"

// checkCANN looks for the libraries of CANN, without loading them unless the System can.
func checkCANN(_ context.Context, p *patient) []Finding {
	if lib := p.vars[LibraryVariable]; lib != "" {
		return p.namedCANN(lib)
	}
	dirs := p.libraryDirs()
	hccl, hcclErr := p.findLibrary(dirs, "libhccl.so")
	runtime, runtimeErr := p.findLibrary(dirs, "libascendcl.so", "libacl_rt.so")
	if err := errors.Join(hcclErr, runtimeErr); err != nil {
		p.cann.broken = err
		return []Finding{found(p.wanted(Warn), fmt.Sprintf("CANN cannot be used: %v", err), "install the CANN toolkit for this architecture ("+p.Arch+")")}
	}
	p.cann.hccl, p.cann.runtime = hccl, runtime
	switch {
	case hccl == nil && runtime == nil:
		return []Finding{p.noCANN()}
	case hccl == nil:
		return []Finding{found(p.wanted(Warn), "the ACL runtime is there ("+runtime.path+"), libhccl.so is not", "install the CANN toolkit, not the runtime alone")}
	case runtime == nil:
		return []Finding{found(p.wanted(Warn), hccl.path+" is there, neither libascendcl.so nor libacl_rt.so is", "source set_env.sh of CANN, which sets LD_LIBRARY_PATH")}
	}
	if missing := p.missingSymbols(dirs); len(missing) > 0 {
		p.cann.broken = fmt.Errorf("%s lacks %s", hccl.path, strings.Join(missing, ", "))
		return []Finding{found(p.wanted(Warn), "CANN cannot be used: "+p.cann.broken.Error(), "install CANN 8.0 or newer")}
	}
	out := []Finding{good("HCCL is %s, the ACL runtime %s", hccl.path, runtime.path)}
	if !slices.Contains(p.loaderDirs(), path.Dir(hccl.path)) {
		out = append(out, found(Warn, path.Dir(hccl.path)+" is not in LD_LIBRARY_PATH: libraries that HCCL needs may not be found", "source set_env.sh of CANN before starting"))
	}
	return append(append(out, p.versions()...), p.load()...)
}

// noCANN is the finding of a machine of CPUs alone.
func (p *patient) noCANN() Finding {
	what := "no CANN on this machine (libhccl.so and libascendcl.so are not there): bulk bytes go by shared memory on this host and by TCP to others"
	if p.wanted(OK) == Fail {
		return found(Fail, what+", but hccl is asked for", "install CANN and source its set_env.sh, name a simulator in "+LibraryVariable+", or use --transport auto")
	}
	return found(OK, what, "")
}

// wanted is Fail when the options cannot do without hccl.
func (p *patient) wanted(otherwise Level) Level {
	if p.Transport == "hccl" || p.Device != "" && p.Device != "none" {
		return Fail
	}
	return otherwise
}

// namedCANN looks at what the variable names.
func (p *patient) namedCANN(name string) []Finding {
	dirs := []string{name}
	names := []string{"libhccl_sim.so", "libhccl.so"}
	if strings.HasSuffix(path.Base(name), ".so") || strings.Contains(path.Base(name), ".so.") {
		dirs, names = []string{path.Dir(name)}, []string{path.Base(name)}
	}
	lib, err := p.findLibrary(dirs, names...)
	if err == nil && lib == nil {
		err = fmt.Errorf("there is no %s in %s", strings.Join(names, " or "), dirs[0])
	}
	if err != nil {
		p.cann.broken = err
		return []Finding{found(Fail, fmt.Sprintf("%s=%s cannot be used: %v", LibraryVariable, name, err), "name a libhccl_sim.so built for "+p.Arch+", or unset "+LibraryVariable)}
	}
	p.cann.hccl, p.cann.runtime, p.cann.simulator = lib, lib, lib.symbols[simulatorSymbol]
	if missing := p.missingSymbols(dirs); len(missing) > 0 {
		p.cann.broken = fmt.Errorf("%s lacks %s", lib.path, strings.Join(missing, ", "))
		return []Finding{found(Fail, fmt.Sprintf("%s=%s: %v", LibraryVariable, name, p.cann.broken), "build the simulator anew")}
	}
	if !p.cann.simulator {
		return append([]Finding{good("HCCL is %s, named by %s", lib.path, LibraryVariable)}, p.load()...)
	}
	out := []Finding{found(Warn, lib.path+" is the SIMULATOR of HCCL: bytes go through host memory, and no NPU is used", "unset "+LibraryVariable+" where there is a real one")}
	return append(out, p.load()...)
}

// load loads CANN into this process when the System can.
func (p *patient) load() []Finding {
	if p.Loader == nil {
		return nil
	}
	l, err := p.Loader.Load()
	if err != nil {
		p.cann.broken = err
		return []Finding{found(p.wanted(Warn), fmt.Sprintf("CANN is there but cannot be loaded: %v", err), "source set_env.sh of CANN; `ldd` on the library says what it misses")}
	}
	what := fmt.Sprintf("loaded: version %s, %d devices", l.Version, l.Devices)
	if l.SoC != "" {
		what += ", chip " + l.SoC
	}
	return []Finding{good("%s", what)}
}

// missingSymbols are those of needed that neither libhccl.so nor libhcomm.so has.
func (p *patient) missingSymbols(dirs []string) []string {
	hcomm, err := p.findLibrary(dirs, "libhcomm.so")
	if err != nil || hcomm == nil {
		hcomm = &library{} // normal before CANN 8.5
	}
	var out []string
	for _, s := range needed() {
		if !p.cann.hccl.symbols[s] && !hcomm.symbols[s] {
			out = append(out, s)
		}
	}
	return out
}

// loaderDirs are the folders the dynamic loader is told of.
func (p *patient) loaderDirs() []string {
	var out []string
	for d := range strings.SplitSeq(p.vars["LD_LIBRARY_PATH"], ":") {
		if path.IsAbs(d) {
			out = append(out, path.Clean(d))
		}
	}
	return out
}

// homes are the folders CANN may be installed in.
func (p *patient) homes() []string {
	var out []string
	for _, h := range []string{
		p.vars["ASCEND_HOME_PATH"], p.vars["ASCEND_TOOLKIT_HOME"], "/usr/local/Ascend/ascend-toolkit/latest", "/usr/local/Ascend/cann",
		path.Join("/", p.vars["HOME"], "Ascend/ascend-toolkit/latest"), path.Join("/", p.vars["HOME"], "Ascend/cann"),
	} {
		if path.IsAbs(h) && !slices.Contains(out, path.Clean(h)) {
			out = append(out, path.Clean(h))
		}
	}
	return out
}

func (p *patient) libraryDirs() []string {
	dirs := p.loaderDirs()
	for _, h := range p.homes() {
		dirs = append(dirs, path.Join(h, "lib64"))
	}
	return dirs
}

// findLibrary is the first of these libraries in the first folder that has one, nil without an error when there is none.
func (p *patient) findLibrary(dirs []string, names ...string) (*library, error) {
	for _, d := range dirs {
		for _, n := range names {
			file := path.Join(d, n)
			lib, err := p.readLibrary(file)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("look at library %s: %w", file, err)
			}
			return lib, nil
		}
	}
	return nil, nil
}

// readLibrary reads what a shared object exports.
func (p *patient) readLibrary(file string) (*library, error) {
	f, err := p.Root.Open(rooted(file))
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // opened for reading
	r, ok := f.(io.ReaderAt)
	if !ok {
		return nil, errors.New("it is no regular file")
	}
	e, err := elf.NewFile(r)
	if err != nil {
		return nil, fmt.Errorf("it is no shared object: %w", err)
	}
	if m := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[p.Arch]; e.Machine != m {
		return nil, fmt.Errorf("it is for %v, this machine is %s", e.Machine, p.Arch)
	}
	syms, err := e.DynamicSymbols()
	if err != nil {
		return nil, fmt.Errorf("read its symbols: %w", err)
	}
	lib := &library{path: file, symbols: map[string]bool{}}
	for _, s := range syms {
		if s.Section != elf.SHN_UNDEF {
			lib.symbols[s.Name] = true
		}
	}
	return lib, nil
}

// versions are those of toolkit, driver and firmware, as their installers wrote them down.
func (p *patient) versions() []Finding {
	var said []string
	note := func(what string, globs ...string) {
		for _, g := range globs {
			files, err := fs.Glob(p.Root, rooted(g))
			if err != nil || len(files) == 0 {
				continue
			}
			if v := p.setting(files[0], "version"); v != "" {
				said = append(said, what+" "+v)
				return
			}
		}
	}
	for _, h := range p.homes() {
		note("toolkit", h+"/*/ascend_toolkit_install.info", h+"/ascend_toolkit_install.info", h+"/version.info")
		if len(said) > 0 {
			break
		}
	}
	note("driver", "/usr/local/Ascend/driver/version.info")
	note("firmware", "/usr/local/Ascend/firmware/version.info")
	if said == nil {
		return []Finding{found(Warn, "the versions of CANN and its driver are not written down where their installers do", "see that every host of the cluster has the same versions (EI0008)")}
	}
	return []Finding{good("versions: %s; every host of the cluster must have the same (EI0008)", strings.Join(said, ", "))}
}

// setting is the value of key=value in a file, whatever the case of the key.
func (p *patient) setting(file, key string) string {
	b, err := fs.ReadFile(p.Root, file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if k, v, ok := strings.Cut(line, "="); ok && strings.EqualFold(strings.TrimSpace(k), key) {
			return strings.Trim(strings.TrimSpace(v), "[]")
		}
	}
	return ""
}
