package trace

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// DefaultRecords is the default of Config.Records: 9 MiB.
const DefaultRecords = 1 << 17

// Config describes a Recorder. Its zero value is good but for the name.
type Config struct {
	// Process is the name of this process in the picture, such as "worker-0".
	Process string
	// ID tells it from the others; by custom a worker's rank.
	ID int
	// Records bounds how many spans, marks and samples are kept; 0: DefaultRecords. Their memory is taken as they come.
	Records int
}

// Recorder keeps the spans, marks and samples of a process. A nil one records nothing. Its methods may be called concurrently, at any time.
type Recorder struct {
	*store
	prefix string // of the names of tracks
}

// store is what a Recorder and those made by For have together.
type store struct {
	cfg    Config
	on     atomic.Bool
	origin time.Time
	rings  []ring

	started chan struct{} // a token, for Run

	mu     sync.Mutex
	tracks []*Track
}

// New makes a Recorder that is off.
func New(cfg Config) *Recorder {
	if cfg.Records <= 0 {
		cfg.Records = DefaultRecords
	}
	n := 1
	for n < 2*runtime.GOMAXPROCS(0) {
		n *= 2
	}
	r := &Recorder{store: &store{cfg: cfg, origin: time.Now(), rings: make([]ring, n), started: make(chan struct{}, 1)}}
	for i := range r.rings {
		r.rings[i].limit = max(1, cfg.Records/n/block)
	}
	return r
}

// For is the same recorder for a part of the process that has a name: the names of its tracks begin with that.
func (r *Recorder) For(part string) *Recorder {
	if r == nil {
		return nil
	}
	return &Recorder{store: r.store, prefix: r.prefix + part + " "}
}

// Start begins to record, or goes on.
func (r *Recorder) Start() {
	if r == nil {
		return
	}
	r.on.Store(true)
	select {
	case r.started <- struct{}{}:
	default:
	}
}

// Stop ends recording; what is kept stays. Spans that end later are not recorded.
func (r *Recorder) Stop() {
	if r != nil {
		r.on.Store(false)
	}
}

// On says whether it records.
func (r *Recorder) On() bool { return r != nil && r.on.Load() }

// Reset forgets what was recorded.
func (r *Recorder) Reset() {
	if r == nil {
		return
	}
	for i := range r.rings {
		r.rings[i].reset()
	}
}

// Track is the line of spans of one goroutine at a time. A span that begins while another is open lies inside it. Spans of a category have a
// colour and are counted together. The same category and name give the same Track.
func (r *Recorder) Track(category, name string) *Track { return r.track(category, name, nested) }

// Lanes is a Track for spans of many goroutines: it becomes as many lines as there are spans at the same time.
func (r *Recorder) Lanes(category, name string) *Track { return r.track(category, name, lanes) }

func (r *Recorder) track(category, name string, l layout) *Track {
	if r == nil {
		return nil
	}
	name = r.prefix + name
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.tracks {
		if t.name == name && t.category == category && t.layout == l {
			return t
		}
	}
	t := &Track{r: r.store, id: uint32(len(r.tracks)), category: category, name: name, layout: l}
	r.tracks = append(r.tracks, t)
	return t
}

// since is the time of the picture.
func (r *store) since(t time.Time) time.Duration { return t.Sub(r.origin) }

// keep takes a record. Goroutines that record at the same moment seldom meet at one ring.
func (r *store) keep(rec record) { r.rings[rand.Uint32()&uint32(len(r.rings)-1)].add(rec) }

// record is a span, mark or sample that is over.
type record struct {
	kind       Phase
	track      uint32
	start, end time.Duration
	name       string
	bytes      int64
	step       int64
	peer       string
	table      string
	out, in    uint64
}

// snapshot is all that is kept and whole: where records were lost, only what ended after the last of them. Without that, a span could be there without
// those inside it, in one ring and not in another.
func (r *store) snapshot() (all []record, lost uint64) {
	var horizon time.Duration
	for i := range r.rings {
		var gone uint64
		var end time.Duration
		all, gone, end = r.rings[i].records(all)
		lost += gone
		if gone > 0 {
			horizon = max(horizon, end)
		}
	}
	if lost == 0 {
		return all, 0
	}
	kept := all[:0]
	for _, rec := range all {
		if rec.end > horizon {
			kept = append(kept, rec)
		}
	}
	return kept, lost + uint64(len(all)-len(kept))
}
