package hccl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"hcclps/p2p/hccl/acl"
)

// Config is the settings of a Device. The zero value of a field is its default.
type Config struct {
	// Lib is the loaded libraries; nil loads them from where acl.Load finds them.
	Lib *acl.Lib
	// Device is the logical number of the device, from 0 to acl.Lib.DeviceCount.
	Device int
	// Host is the identity of the host: two devices with the same Host and number are one. The default is the boot id.
	Host string
	// BufferMiB is the size of the two buffers that HCCL keeps for each communicator, 16 MiB by default. The two
	// sides of a pair use the smaller of theirs.
	BufferMiB int
	// MaxPairs bounds the pairs, and with them the device memory they take. The default is 64.
	MaxPairs int
	// Piece is the bytes in which host memory is staged, a multiple of 64, by default 2 MiB. The smaller side rules.
	Piece int
	// Depth is how many pieces of a pair are staged at once in each direction, 4 by default.
	Depth int
	// WarmTimeout bounds the first operator of each direction, in which the issuer may hang. The default is 2 s.
	WarmTimeout time.Duration
	// ExecTimeout is after what time HCCL gives an operator up whose peer does not come. It is only a backstop: peers are
	// known to be lost by their connection. The default is 68 s, which is the least a 910A takes.
	ExecTimeout time.Duration
	// SingleThread makes one OS thread issue operators, create communicators and allocate memory, for libraries that
	// take nothing else. A peer that dies while a pair is made then stops all pairs of the device until HCCL gives up.
	SingleThread bool
	// Logger is where events of note go; nil discards them.
	Logger *slog.Logger
}

const (
	defaultBufferMiB   = 16
	defaultMaxPairs    = 64
	defaultPiece       = 2 << 20
	defaultDepth       = 4
	defaultWarmTimeout = 2 * time.Second
	defaultExecTimeout = 68 * time.Second
	// stopPatience bounds how long Run waits for pairs and threads when it ends.
	stopPatience = 10 * time.Second
)

func (c *Config) setDefaults() {
	setDefault(&c.BufferMiB, defaultBufferMiB)
	setDefault(&c.MaxPairs, defaultMaxPairs)
	setDefault(&c.Piece, defaultPiece)
	setDefault(&c.Depth, defaultDepth)
	setDefault(&c.WarmTimeout, defaultWarmTimeout)
	setDefault(&c.ExecTimeout, defaultExecTimeout)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (c *Config) validate() error {
	var errs []error
	fault := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	fault(c.Device >= 0, "device %d is negative", c.Device)
	fault(c.BufferMiB >= 1 && c.BufferMiB <= maxBufferMiB, "buffer of %d MiB is not within 1..%d", c.BufferMiB, maxBufferMiB)
	fault(c.MaxPairs >= 1, "no pair is allowed: MaxPairs is %d", c.MaxPairs)
	fault(c.Piece >= minPiece && c.Piece <= maxPiece && c.Piece%64 == 0,
		"piece of %d bytes is not a multiple of 64 within %d..%d", c.Piece, minPiece, maxPiece)
	fault(c.Depth >= 1, "depth %d is below 1", c.Depth)
	fault(c.WarmTimeout > 0 && c.ExecTimeout > 0, "a time-out is negative")
	return errors.Join(errs...)
}

// Device is one NPU, as the owner of its pairs. Methods may be called by any number of goroutines.
type Device struct {
	cfg    Config
	lib    *acl.Lib
	log    *slog.Logger
	self   hello
	family family

	issuer  *thread // every operator of every communicator
	builder *thread // creates and destroys communicators, may block for minutes
	steward *thread // memory, streams and events: never waits for a peer
	waiter  *waiter
	pool    *pool
	making  chan struct{} // holds the one permission to make a pair

	live    sync.WaitGroup // pairs that are made, Comms, and what is being given back
	stopped chan struct{}

	mu    sync.Mutex
	over  bool
	ran   bool
	pairs int  // that hold or may hold memory
	stuck bool // a creation whose peer is gone is still in HCCL
	comms map[*Comm]struct{}
}

// Open checks the library and the device. It starts nothing: what needs the device waits for Run. A chip without Send
// and Recv is refused with ErrChip.
func Open(cfg Config) (*Device, error) {
	cfg.setDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("open device %d: %w", cfg.Device, err)
	}
	if cfg.Lib == nil {
		lib, err := acl.Load("")
		if err != nil {
			return nil, fmt.Errorf("open device %d: %w", cfg.Device, err)
		}
		cfg.Lib = lib
	}
	d := &Device{
		cfg: cfg, lib: cfg.Lib, log: cfg.Logger, making: make(chan struct{}, 1), comms: make(map[*Comm]struct{}), stopped: make(chan struct{}),
		issuer: newThread("issuer"), waiter: newWaiter(cfg.Lib),
	}
	d.builder, d.steward = newThread("builder"), newThread("steward")
	if cfg.SingleThread {
		d.builder, d.steward = d.issuer, d.issuer
	}
	d.pool = &pool{lib: d.lib, steward: d.steward, size: cfg.Piece}
	if err := d.identify(); err != nil {
		return nil, fmt.Errorf("open device %d: %w", cfg.Device, err)
	}
	return d, nil
}

// identify asks the library who this device is.
func (d *Device) identify() error {
	setExecTimeout(d.lib, d.cfg.ExecTimeout)
	if err := d.lib.Init(); err != nil {
		return err
	}
	count, err := d.lib.DeviceCount()
	if err != nil {
		return err
	}
	if d.cfg.Device >= count {
		return fmt.Errorf("there are %d devices here, numbered from 0: npu-smi info, ASCEND_RT_VISIBLE_DEVICES", count)
	}
	version, err := d.lib.Version()
	if err != nil {
		return err
	}
	host := d.cfg.Host
	if host == "" {
		if host, err = bootID(); err != nil {
			return err
		}
	}
	d.self = hello{
		Protocol: protocolVersion, Host: host, Physical: physical(d.cfg.Device, os.Getenv("ASCEND_RT_VISIBLE_DEVICES")),
		Chip: d.lib.SocName(), Version: version, Simulator: d.lib.Simulator(),
		BufferMiB: d.cfg.BufferMiB, Piece: d.cfg.Piece, ExecSecs: int(d.cfg.ExecTimeout / time.Second),
	}
	d.family = familyOf(d.self.Chip)
	return checkChip(d.self.Chip)
}

// setExecTimeout names the time-out in the environment where the library takes it from nowhere else.
func setExecTimeout(lib *acl.Lib, d time.Duration) {
	const name = "HCCL_EXEC_TIMEOUT"
	if !lib.SetsExecTimeout() && os.Getenv(name) == "" {
		_ = lib.Setenv(name, strconv.Itoa(int(d/time.Second))) // without it the default of half an hour rules
	}
}

// bootID tells hosts apart, and is the same in all containers of a host.
func bootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("identify host: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// physical is the number on the host of a logical device, by the variable that chooses the visible ones.
func physical(logical int, visible string) int {
	list := strings.Split(visible, ",")
	if visible == "" || logical >= len(list) {
		return logical
	}
	if n, err := strconv.Atoi(strings.TrimSpace(list[logical])); err == nil && n >= 0 {
		return n
	}
	return logical
}

// Chip is the name of the chip.
func (d *Device) Chip() string { return d.self.Chip }

// Simulator is the version of the simulator, empty on a real device.
func (d *Device) Simulator() string { return d.self.Simulator }

// Run owns the threads of the device, until ctx ends; then it closes all Comms, gives back what they hold and returns
// the cause of ctx's end. It runs once.
func (d *Device) Run(ctx context.Context) error {
	d.mu.Lock()
	again := d.ran
	d.ran = true
	d.mu.Unlock()
	if again {
		return fmt.Errorf("run device %d: it was run before", d.cfg.Device)
	}
	stop := make(chan struct{})
	ended := make(chan error, maxThreads) // a thread that comes back late finds room
	count := d.startThreads(stop, ended)
	var first error
	select {
	case <-ctx.Done():
		first = context.Cause(ctx)
	case first = <-ended: // a thread that could not start
		count--
	}
	rest := d.closeAll()
	close(stop)
	late := time.After(stopPatience)
	for ; count > 0; count-- {
		select {
		case err := <-ended:
			rest = errors.Join(rest, err)
		case <-late:
			d.log.Warn("a thread is stuck in the library and left behind", "device", d.cfg.Device)
			return fmt.Errorf("stop device %d: %d threads are stuck in the library: %w", d.cfg.Device, count, first)
		}
	}
	if rest != nil {
		d.log.Warn("device did not stop cleanly", "device", d.cfg.Device, "err", rest)
	}
	return first
}

// maxThreads is the issuer, the builder, the steward and the waiter.
const maxThreads = 4

// startThreads starts the threads, each of which sends its end, and returns how many there are.
func (d *Device) startThreads(stop <-chan struct{}, ended chan<- error) int {
	set := func() error { return d.lib.SetDevice(d.cfg.Device) }
	reset := func() error { return d.lib.ResetDevice(d.cfg.Device) }
	trim := func() error { return errors.Join(d.pool.trim(), reset()) }
	runs := []func() error{
		func() error { return d.steward.run(stop, set, trim) },
		func() error { return onThread(set, func() { d.waiter.run(stop) }, reset) },
	}
	if !d.cfg.SingleThread {
		runs = append(runs, func() error { return d.issuer.run(stop, set, reset) }, func() error { return d.builder.run(stop, set, reset) })
	}
	for _, run := range runs {
		go func() { ended <- run() }()
	}
	return len(runs)
}

// closeAll closes the Comms and waits until everything is given back.
func (d *Device) closeAll() error {
	d.mu.Lock()
	d.over = true
	var comms []*Comm
	for c := range d.comms {
		comms = append(comms, c)
	}
	d.mu.Unlock()
	close(d.stopped)
	for _, c := range comms {
		_ = c.Close()
	}
	quiet := make(chan struct{})
	go func() {
		d.live.Wait()
		close(quiet)
	}()
	select {
	case <-quiet:
		return nil
	case <-time.After(stopPatience):
		return fmt.Errorf("wait for pairs of device %d to be given back: %w", d.cfg.Device, context.DeadlineExceeded)
	}
}

// enter counts one who uses the threads in. Who enters calls live.Done.
func (d *Device) enter() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over {
		return ErrStopped
	}
	d.live.Add(1)
	return nil
}

// Trim frees the staging memory that no transfer uses.
func (d *Device) Trim(ctx context.Context) error {
	if err := d.steward.do(ctx, d.pool.trim); err != nil {
		return fmt.Errorf("trim device %d: %w", d.cfg.Device, err)
	}
	return nil
}
