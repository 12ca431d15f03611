package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"hcclps/p2p/hccl/acl"
)

// machine is a System made of fixtures. The zero value of each part is a host of CPUs on which all is well.
type machine struct {
	files     fstest.MapFS
	env       []string
	outputs   map[string]string // of a command line
	failing   map[string]error
	broken    map[string]error // features
	space     map[string]Space
	free      int64
	limit     uint64
	unsynced  bool
	ifs       []Interface
	listen    error
	servers   map[string]Server
	errs      map[string]error
	leftovers []Leftover
	loaded    Loaded
	noLoad    error
}

func (m *machine) system() System {
	return System{
		Root: m.files, Env: m.env, Arch: "arm64", Commands: m, Kernel: m, Network: m, Peers: m, Loader: m,
		Leftovers: func() ([]Leftover, error) { return m.leftovers, nil },
	}
}

func (m *machine) Run(_ context.Context, name string, args ...string) ([]byte, error) {
	line := strings.Join(append([]string{filepath.Base(name)}, args...), " ")
	if err := m.failing[line]; err != nil {
		return nil, err
	}
	if out, ok := m.outputs[line]; ok {
		return []byte(out), nil
	}
	for l := range m.outputs {
		if strings.HasPrefix(l, filepath.Base(name)+" ") {
			return nil, fmt.Errorf("%s: exit status 1", line)
		}
	}
	return nil, exec.ErrNotFound
}

func (m *machine) Probe(feature string) error { return m.broken[feature] }

func (m *machine) Space(dir string) (Space, error) {
	if s, ok := m.space[dir]; ok {
		return s, nil
	}
	return Space{}, syscall.ENOENT
}

func (m *machine) Memory() (int64, string, error) {
	if m.free == 0 {
		return 100 << 30, "the machine", nil
	}
	return m.free, "the control group /pod", nil
}

func (m *machine) Files() (uint64, error) { return max(m.limit, 0), nil }

func (m *machine) Synchronised() (bool, error) { return !m.unsynced, nil }

func (m *machine) Interfaces() ([]Interface, error) { return m.ifs, nil }

func (m *machine) Listen(context.Context, string) error { return m.listen }

func (m *machine) Ask(ctx context.Context, addr string) (Server, error) {
	if err := m.errs[addr]; err != nil {
		return Server{}, err
	}
	if s, ok := m.servers[addr]; ok {
		return s, nil
	}
	<-ctx.Done()
	return Server{}, ctx.Err()
}

// healthy is a host of CPUs without anything to complain about.
func healthy() *machine {
	return &machine{
		files: fstest.MapFS{"proc/self/fd": &fstest.MapFile{Mode: fs.ModeDir}},
		limit: 65536,
		space: map[string]Space{
			memoryFiles: {Total: 64 << 30, Free: 60 << 30, InMemory: true},
			"/data":     {Total: 1 << 40, Free: 500 << 30},
		},
		ifs: []Interface{
			{Name: "lo", Up: true, Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1")}},
			{Name: "eth0", Up: true, Addrs: []netip.Addr{netip.MustParseAddr("10.0.0.5")}},
		},
	}
}

// file adds a file to the machine.
func (m *machine) file(path string, data []byte) {
	m.files[rooted(path)] = &fstest.MapFile{Data: data}
}

// Load implements Loader.
func (m *machine) Load() (Loaded, error) {
	if m.loaded.Files == nil && m.noLoad == nil {
		return Loaded{}, fmt.Errorf("load CANN: %w", acl.ErrNoLibrary)
	}
	return m.loaded, m.noLoad
}

// withCANN installs a toolkit of before 8.5 with its driver.
func (m *machine) withCANN() {
	const home = "/usr/local/Ascend/ascend-toolkit/latest"
	m.file(home+"/lib64/libhccl.so", nil)
	m.file(home+"/lib64/libascendcl.so", nil)
	m.file(home+"/aarch64-linux/ascend_toolkit_install.info", []byte("package_name=Ascend-cann-toolkit\nversion=8.1.RC1\ninnerversion=V100R001C21\n"))
	m.file("/usr/local/Ascend/driver/version.info", []byte("Version=24.1.rc2\nascendhal_version=7.35.19\n"))
	m.env = append(m.env, "LD_LIBRARY_PATH=/opt/x:"+home+"/lib64:", "ASCEND_HOME_PATH="+home)
	m.loaded = Loaded{Files: []string{home + "/lib64/libascendcl.so", home + "/lib64/libhccl.so"}, Version: "8.1.RC1", SoC: "Ascend910B3", Devices: 8}
}

// withTools makes npu-smi and hccn_tool print what is recorded in testdata/dir.
func (m *machine) withTools(t *testing.T, dir string) {
	t.Helper()
	m.outputs = map[string]string{"npu-smi info": recorded(t, filepath.Join(dir, "npu-smi-info.txt"))}
	files, err := filepath.Glob(filepath.Join("testdata", dir, "hccn-*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		id := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(f), "hccn-"), ".txt")
		m.outputs["hccn_tool -i "+id+" -link -g"] = recorded(t, filepath.Join(dir, filepath.Base(f)))
	}
}

func recorded(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// examine runs all checks on a machine.
func (m *machine) examine(t *testing.T, opt Options) Report {
	t.Helper()
	if opt.Patience == 0 {
		opt.Patience = 50 * time.Millisecond
	}
	r, err := Examine(t.Context(), m.system(), opt)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// about are the findings of one check.
func (r Report) about(check string) []Finding {
	return slices.DeleteFunc(slices.Clone(r.Findings), func(f Finding) bool { return f.Check != check })
}

// want checks that a check has a finding of this level that says all these words.
func (r Report) want(t *testing.T, check string, level Level, words ...string) {
	t.Helper()
	for _, f := range r.about(check) {
		text := f.What + " -> " + f.Do
		if f.Level == level && !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) }) {
			return
		}
	}
	t.Errorf("%s: no finding %q with %q in %+v", check, level, words, r.about(check))
}

var errPlanted = errors.New("planted")
