package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Level says how bad a finding is.
type Level string

// The levels, from good to bad.
const (
	OK   Level = "ok"   // as it should be, or of no consequence here
	Warn Level = "warn" // it works, but not as well or not as meant
	Fail Level = "fail" // something will fail
)

// Finding is one thing a check has seen. The JSON of doctor is made of them.
type Finding struct {
	Check string `json:"check"`
	Level Level  `json:"level"`
	What  string `json:"what"`
	Do    string `json:"do,omitempty"` // what to do about it
}

// Options say what the machine is meant for. The zero value is a machine of its own without a cluster.
type Options struct {
	Servers     []string // addresses of the cluster, all of them
	Cluster     string   // its name
	Transport   string   // as backend.Transports; "" is auto
	Device      string   // number of the NPU this process is to own; "" or none: no device
	Listen      string   // address a server is to listen at; "" when it is none
	Advertise   string   // address of Servers that is this server's, "" is Listen
	Insecure    bool     // it may listen to others without TLS and token
	Dir         string   // data directory of a server, absolute
	LogDir      string   // of the logs; "": by durability
	Durability  string   // of a server: quorum-disk or quorum-memory
	Replicas    int      // copies of each group, 0: by the number of servers
	Shards      int      // 0: by the number of servers
	LogBudget   int64    // bytes of log a group
	Memory      int64    // bytes a server may use, 0: what is free
	Certificate string   // PEM files of TLS, absolute; "": none
	Key         string
	Authority   string
	Token       string        // file of the token
	Refused     error         // why they cannot be used together, as the network says
	Now         time.Time     // zero: the time of the check
	Variables   []string      // names HCCLPS_* that the programs read
	Patience    time.Duration // with one server or one command; 0 is 5 s
}

// Check is one look at the machine.
type Check struct {
	Name string
	look func(ctx context.Context, p *patient) []Finding
}

// Checks lists all checks in the order of the report.
func Checks() []Check {
	return []Check{
		{"cann", checkCANN},
		{"devices", checkDevices},
		{"device network", checkDeviceNetwork},
		{"hccl variables", checkVariables},
		{"own variables", checkOwnVariables},
		{"host network", checkHostNetwork},
		{"whitelist", checkWhitelist},
		{"shared memory", checkSharedMemory},
		{"log space", checkLogSpace},
		{"leftovers", checkLeftovers},
		{"memory", checkMemory},
		{"limits", checkLimits},
		{"security", checkSecurity},
		{"listen", checkListen},
		{"servers", checkServers},
		{"clock", checkClock},
		{"transports", checkTransports},
	}
}

// patient is the machine with what is known of it.
type patient struct {
	System
	Options
	vars map[string]string
	cann cann
	npus []npu
	shm  error // why shared memory cannot be used, once it was looked at
}

// Examine runs every check, one after the other, until ctx ends.
func Examine(ctx context.Context, sys System, opt Options) (Report, error) {
	if opt.Patience == 0 {
		opt.Patience = 5 * time.Second
	}
	if opt.Now.IsZero() {
		opt.Now = time.Now()
	}
	p := &patient{System: sys, Options: opt, vars: variables(sys.Env)}
	var r Report
	for _, c := range Checks() {
		if ctx.Err() != nil {
			return r, fmt.Errorf("examine the machine: %w", context.Cause(ctx))
		}
		for _, f := range c.look(ctx, p) {
			f.Check = c.Name
			r.Findings = append(r.Findings, f)
		}
	}
	return r, nil
}

// ErrWillFail means that a report has a finding of level Fail.
var ErrWillFail = errors.New("something will fail")

func good(format string, args ...any) Finding {
	return Finding{Level: OK, What: fmt.Sprintf(format, args...)}
}

// found makes a finding from what was seen and what to do about it.
func found(l Level, what, do string) Finding { return Finding{Level: l, What: what, Do: do} }
