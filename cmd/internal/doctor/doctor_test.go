package doctor

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"hcclps/p2p/hccl/acl"
	"hcclps/p2p/link"
	"hcclps/p2p/sockets"
)

var rewrite = flag.Bool("rewrite", false, "write the golden reports anew")

// golden compares a report with testdata/NAME.golden.
func golden(t *testing.T, name string, r Report) {
	t.Helper()
	var got bytes.Buffer
	if err := r.Write(&got); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", name+".golden")
	if *rewrite {
		if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%s (see -rewrite): got\n%s", path, got.Bytes())
	}
}

func TestHealthyHostOfCPUs(t *testing.T) {
	r := healthy().examine(t, Options{})
	golden(t, "cpu", r)
	if r.Err() != nil {
		t.Errorf("healthy host: %v", r.Err())
	}
}

func TestHostOfEight910B(t *testing.T) {
	m := healthy()
	m.withCANN()
	m.withTools(t, "910b")
	m.env = append(m.env, "HCCL_CONNECT_TIMEOUT=300", "HCCL_SOCKET_IFNAME==eth0")
	m.file("/proc/sys/net/ipv4/ip_local_port_range", []byte("32768\t60999\n"))
	golden(t, "910b", m.examine(t, Options{Device: "0", Transport: "hccl"}))
}

func TestA3HasTwoDevicesANPU(t *testing.T) {
	m := healthy()
	m.withCANN()
	m.withTools(t, "a3")
	m.loaded.Devices = 4
	golden(t, "a3", m.examine(t, Options{Device: "3"}))
	m.examine(t, Options{Device: "4"}).want(t, "devices", Fail, "--device 4", "4 devices")
}

func TestBareContainer(t *testing.T) {
	m := healthy()
	m.free, m.limit, m.unsynced = 300<<20, 1024, true
	m.space[memoryFiles] = Space{Total: 64 << 20, Free: 64 << 20, InMemory: true}
	m.broken = map[string]error{memfd: syscall.EPERM, vmRead: syscall.EPERM, pidfd: syscall.ENOSYS}
	m.file("/proc/sys/vm/overcommit_memory", []byte("2\n"))
	golden(t, "container", m.examine(t, Options{}))
	m.examine(t, Options{Transport: "shm"}).want(t, "shared memory", Fail, "memfd_create")
}

func TestChipWithoutSendAndRecv(t *testing.T) {
	m := healthy()
	m.withCANN()
	m.withTools(t, "310p")
	m.examine(t, Options{}).want(t, "devices", Warn, "310P3", "no HcclSend")
	m.examine(t, Options{Device: "0"}).want(t, "devices", Fail, "310P3", "no HcclSend")
}

func TestAskingForHCCLWithoutCANNFails(t *testing.T) {
	for _, opt := range []Options{{Transport: "hccl"}, {Device: "0"}} {
		r := healthy().examine(t, opt)
		r.want(t, "cann", Fail, "no CANN", acl.EnvLib, "--transport auto")
		if !errors.Is(r.Err(), ErrWillFail) {
			t.Errorf("%+v: error %v", opt, r.Err())
		}
	}
}

func TestSimulatorIsCalledOne(t *testing.T) {
	m := healthy()
	m.env = []string{acl.EnvLib + "=/build/libhccl_sim.so"}
	m.loaded = Loaded{Files: []string{"/build/libhccl_sim.so"}, Simulator: "1.2", SoC: "Ascend910B1", Devices: 2}
	r := m.examine(t, Options{Transport: "hccl", Device: "1"})
	r.want(t, "cann", Warn, "SIMULATOR", "/build/libhccl_sim.so", "1.2")
	r.want(t, "cann", OK, "2 devices", "Ascend910B1")
	r.want(t, "devices", OK, "the simulator")
	r.want(t, "transports", OK, "hccl: by the simulator")
	if r.Err() != nil {
		t.Errorf("the simulator fails: %v in %+v", r.Err(), r)
	}
}

func TestNamedLibraryMustLoad(t *testing.T) {
	m := healthy()
	m.env = []string{acl.EnvLib + "=/build/libhccl_sim.so"}
	m.noLoad = fmt.Errorf("%w: /build/libhccl_sim.so: wrong ELF class", acl.ErrNoLibrary)
	m.examine(t, Options{}).want(t, "cann", Fail, "/build/libhccl_sim.so", "wrong ELF class", "built for arm64")
}

func TestCANNThatCannotBeLoaded(t *testing.T) {
	m := healthy()
	m.withCANN()
	m.noLoad = fmt.Errorf("%w: libascend_hal.so: cannot open shared object file", acl.ErrNoLibrary)
	m.examine(t, Options{}).want(t, "cann", Warn, "CANN is here", "libascend_hal.so", "set_env.sh")
	r := m.examine(t, Options{Transport: "hccl"})
	r.want(t, "cann", Fail, "libascend_hal.so")
	r.want(t, "transports", Fail, "--device N")
	m.examine(t, Options{Device: "0"}).want(t, "transports", Fail, "hccl: not here")
	m = healthy()
	m.noLoad = fmt.Errorf("%w: libhccl.so lacks HcclSend", acl.ErrNoSymbol)
	m.examine(t, Options{}).want(t, "cann", Warn, "lacks HcclSend")
}

func TestVersionsOfCANNAreUnknown(t *testing.T) {
	m := healthy()
	m.loaded = Loaded{Files: []string{"libhccl.so"}}
	m.examine(t, Options{}).want(t, "cann", Warn, "versions", "EI0008")
}

func TestDevicesWithoutTools(t *testing.T) {
	m := healthy()
	m.file("/dev/davinci0", nil)
	m.file("/dev/davinci_manager", nil)
	m.examine(t, Options{}).want(t, "devices", Warn, "1 device files", "npu-smi")
	m.failing = map[string]error{"npu-smi info": errPlanted}
	m.examine(t, Options{}).want(t, "devices", Warn, "npu-smi info failed", "HwHiAiUser")
	m.failing, m.outputs = nil, map[string]string{"npu-smi info": "no device\n"}
	m.examine(t, Options{}).want(t, "devices", Warn, "shows no NPU", "/dev/davinci_manager")
}

func TestVisibleDevices(t *testing.T) {
	m := healthy()
	m.withCANN()
	m.withTools(t, "910b")
	m.env = append(m.env, "ASCEND_RT_VISIBLE_DEVICES=2,9")
	m.examine(t, Options{}).want(t, "devices", Warn, "no NPU 9")
	m.loaded.Devices = 2
	m.examine(t, Options{Device: "2"}).want(t, "devices", Fail, "--device 2", "2 devices")
	m.examine(t, Options{Device: "first"}).want(t, "devices", Fail, "--device first")
}

func TestServersAreJudged(t *testing.T) {
	m := healthy()
	m.servers = map[string]Server{
		"a:1": {Name: "s1", Version: "0.1.0", Trip: 80_000}, "b:1": {Name: "s2", Version: "0.2.0", Trip: 300_000_000, Ahead: -700 * time.Second}, "c:1": {Name: "s1", Version: "0.1.0"},
	}
	m.errs = map[string]error{
		"d:1": fmt.Errorf("call: %w", link.ErrWrongCluster), "e:1": fmt.Errorf("call: %w", link.ErrVersion),
		"j:1": fmt.Errorf("dial: %w", sockets.ErrRefused),
		"f:1": fmt.Errorf("dial: %w", syscall.ECONNREFUSED), "g:1": &net.DNSError{Name: "g", Err: "no such host"},
		"h": &net.AddrError{Addr: "h", Err: "missing port"}, "i:1": syscall.EHOSTUNREACH, "unix:/x": syscall.EACCES,
	}
	r := m.examine(t, Options{Servers: []string{"a:1", "b:1", "c:1", "d:1", "e:1", "f:1", "g:1", "h", "i:1", "j:1", "unix:/x", "silent:1"}})
	golden(t, "servers", r)
}

func TestListening(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		opt   Options
		level Level
		says  string
	}{
		"free":              {nil, Options{Listen: "10.0.0.5:7000"}, OK, "free to listen"},
		"nothing to dial":   {nil, Options{Listen: "0.0.0.0:7000"}, Fail, "--advertise"},
		"advertised apart":  {nil, Options{Listen: "0.0.0.0:7000", Advertise: "10.0.0.5:7000"}, OK, "free to listen"},
		"own server runs":   {syscall.EADDRINUSE, Options{Listen: "a:1"}, OK, "server s1"},
		"taken":             {syscall.EADDRINUSE, Options{Listen: "b:1"}, Fail, "taken by another program"},
		"not of this host":  {syscall.EADDRNOTAVAIL, Options{Listen: "a:1"}, Fail, "no address of this host"},
		"privileged":        {syscall.EACCES, Options{Listen: "a:80"}, Fail, "above 1023"},
		"something unknown": {errPlanted, Options{Listen: "a"}, Fail, "HOST:PORT"},
	} {
		m := healthy()
		m.listen, m.servers = c.err, map[string]Server{"a:1": {Name: "s1"}}
		if m.examine(t, c.opt).want(t, "listen", c.level, c.says); t.Failed() {
			t.Fatalf("in case %q", name)
		}
	}
}

func TestLogsMustFit(t *testing.T) {
	three := []string{"a:1", "b:1", "c:1"}
	for name, c := range map[string]struct {
		change func(m *machine)
		opt    Options
		level  Level
		says   string
	}{
		"disk":               {func(*machine) {}, Options{Dir: "/data", Servers: three, Listen: "b:1"}, OK, "16 logs of 64.0 MiB"},
		"replicas":           {func(*machine) {}, Options{Dir: "/data", Servers: three, Listen: "b:1", Replicas: 1, Shards: 8}, OK, "3 logs"},
		"fewer here":         {func(*machine) {}, Options{Dir: "/data", Servers: three, Listen: "a:1", Replicas: 1, Shards: 8}, OK, "2 logs"},
		"advertised":         {func(*machine) {}, Options{Dir: "/data", Servers: three, Listen: "0.0.0.0:1", Advertise: "a:1", Replicas: 1, Shards: 8}, OK, "2 logs"},
		"disk is full":       {func(m *machine) { m.space["/data"] = Space{Free: 1 << 30} }, Options{Dir: "/data", Servers: three, Listen: "a:1"}, Fail, "--log-budget"},
		"memory":             {func(*machine) {}, Options{Dir: "/data", Durability: "quorum-memory"}, OK, "/dev/shm has 60.0 GiB"},
		"memory is short":    {func(m *machine) { m.space[memoryFiles] = Space{Free: 64 << 20, InMemory: true} }, Options{Dir: "/data", Durability: "quorum-memory"}, Warn, "--shm-size"},
		"memory is no tmpfs": {func(m *machine) { m.space[memoryFiles] = Space{Free: 1 << 40} }, Options{Dir: "/data", Durability: "quorum-memory"}, Warn, "not in memory"},
		"none":               {func(m *machine) { delete(m.space, memoryFiles) }, Options{}, Warn, "mount -t tmpfs"},
		"volatile data":      {func(m *machine) { m.space["/data"] = Space{Free: 1 << 40, InMemory: true} }, Options{Dir: "/data"}, Warn, "does not survive"},
		"not there yet":      {func(*machine) {}, Options{Dir: "/data/new/s1"}, OK, "/data/new/s1 has 500 GiB free"},
		"logs apart":         {func(m *machine) { m.space["/logs"] = Space{Free: 1 << 20} }, Options{Dir: "/data", LogDir: "/logs"}, Fail, "/logs has 1.0 MiB free"},
		"impossible layout":  {func(*machine) {}, Options{Dir: "/data", Servers: three, Replicas: 5}, Fail, "5 replicas"},
	} {
		m := healthy()
		c.change(m)
		if m.examine(t, c.opt).want(t, "log space", c.level, c.says); t.Failed() {
			t.Fatalf("in case %q", name)
		}
	}
}

func TestMoreMemoryThanThereIs(t *testing.T) {
	m := healthy()
	m.free = 4 << 30
	m.examine(t, Options{Memory: 8 << 30}).want(t, "memory", Fail, "8.0 GiB", "4.0 GiB", "/pod")
	m.limit = 100
	m.examine(t, Options{}).want(t, "limits", Fail, "100 open files", "ulimit")
}

func TestJSONCountsFindings(t *testing.T) {
	r := healthy().examine(t, Options{Transport: "hccl"})
	var out bytes.Buffer
	if err := r.WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Findings []Finding `json:"findings"`
		OK       int       `json:"ok"`
		Fail     int       `json:"fail"`
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || bytes.Count(out.Bytes(), []byte("\n")) != 1 {
		t.Fatalf("%v in %q", err, out.String())
	}
	if len(got.Findings) != len(r.Findings) || got.OK != r.count(OK) || got.Fail == 0 || got.Findings[0].Check != "cann" {
		t.Errorf("report %+v printed as %s", r, out.String())
	}
}
