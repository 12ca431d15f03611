package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"hcclps/p2p/hccl/acl"
)

// cann is what was found of it.
type cann struct {
	loaded    bool
	simulator bool
	devices   int
}

// usable says whether HCCL can be used.
func (c cann) usable() bool { return c.loaded }

// checkCANN loads the libraries of CANN, as the programs do, and says what they are or why they cannot be loaded.
func checkCANN(_ context.Context, p *patient) []Finding {
	l, err := p.Loader.Load()
	if err != nil {
		return []Finding{p.notLoaded(err)}
	}
	p.cann = cann{loaded: true, simulator: l.Simulator != "", devices: l.Devices}
	files := strings.Join(l.Files, ", ")
	if p.cann.simulator {
		return []Finding{
			found(Warn, fmt.Sprintf("%s is the SIMULATOR of HCCL, version %s: bytes go through host memory, no NPU is used", files, l.Simulator), "unset "+acl.EnvLib+" where there is a real one"),
			good("the simulator shows %d devices, chip %s", l.Devices, orUnknown(l.SoC)),
		}
	}
	return append([]Finding{good("HCCL is %s; runtime %s, %d devices, chip %s", files, orUnknown(l.Version), l.Devices, orUnknown(l.SoC))}, p.versions()...)
}

// chosenDevice checks --device against what the runtime shows of it.
func (p *patient) chosenDevice() []Finding {
	if !p.cann.usable() || !p.hasDevice() {
		return nil
	}
	if id, err := strconv.Atoi(p.Device); err != nil || id < 0 || id >= p.cann.devices {
		return []Finding{found(Fail, fmt.Sprintf("--device %s: there are %d devices, counted from 0", p.Device, p.cann.devices), "devices are counted among the visible ones (ASCEND_RT_VISIBLE_DEVICES)")}
	}
	return nil
}

func (p *patient) hasDevice() bool { return p.Device != "" && p.Device != "none" }

// notLoaded tells a machine without CANN from one whose CANN is out of reach or broken.
func (p *patient) notLoaded(err error) Finding {
	if name := p.vars[acl.EnvLib]; name != "" {
		return found(Fail, fmt.Sprintf("%s=%s: %v", acl.EnvLib, name, err), "name the folder of libhccl.so, or a simulator built for "+p.Arch+" (hccl-sim DIR builds one), or unset the variable")
	}
	libs := p.librariesOnDisk()
	if len(libs) > 0 || errors.Is(err, acl.ErrNoSymbol) {
		return found(p.wanted(Warn), fmt.Sprintf("CANN is here (%s), but cannot be used: %v", strings.Join(libs, ", "), err), "source set_env.sh of CANN and of its driver, which set LD_LIBRARY_PATH; ldd on the library says what it misses")
	}
	const what = "no CANN on this machine (no libhccl.so, no libascendcl.so): bulk bytes go by shared memory on this host and by TCP to others"
	if p.wanted(OK) == Fail {
		return found(Fail, what+"; but hccl is asked for", "install CANN and source its set_env.sh, name a simulator in "+acl.EnvLib+" (hccl-sim DIR builds one), or use --transport auto --device none")
	}
	return found(OK, what, "")
}

// wanted is Fail when the options cannot do without hccl.
func (p *patient) wanted(otherwise Level) Level {
	if p.Transport == "hccl" || p.hasDevice() {
		return Fail
	}
	return otherwise
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

// librariesOnDisk are those of CANN where it installs itself.
func (p *patient) librariesOnDisk() []string {
	var out []string
	for _, h := range p.homes() {
		for _, name := range []string{"libhccl.so", "libascendcl.so", "libacl_rt.so"} {
			file := path.Join(h, "lib64", name)
			if _, err := fs.Stat(p.Root, rooted(file)); err == nil {
				out = append(out, file)
			}
		}
	}
	return out
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
