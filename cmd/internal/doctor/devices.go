package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// npu is a chip as npu-smi shows it.
type npu struct {
	id          int    // as hccn_tool and --device count them
	name        string // 910B3, Ascend910, 310P3, ...
	health      string
	used, total int // of its memory, MB
}

// checkDevices looks for NPUs: what the runtime counts, device files, then what npu-smi says of them.
func checkDevices(ctx context.Context, p *patient) []Finding {
	return append(p.lookForDevices(ctx), p.chosenDevice()...)
}

func (p *patient) lookForDevices(ctx context.Context) []Finding {
	files, err := fs.Glob(p.Root, "dev/davinci[0-9]*")
	if err != nil {
		files = nil
	}
	out, err := p.command(ctx, []string{"npu-smi", "/usr/local/sbin/npu-smi", "/usr/local/bin/npu-smi"}, "info")
	switch {
	case errors.Is(err, exec.ErrNotFound) && len(files) == 0:
		if p.cann.simulator {
			return []Finding{good("no NPU; the simulator makes its own devices")}
		}
		return []Finding{found(p.wanted(OK), "no NPU: there is neither a device file /dev/davinci* nor npu-smi", "")}
	case errors.Is(err, exec.ErrNotFound):
		return []Finding{found(Warn, fmt.Sprintf("%d device files /dev/davinci*, but no npu-smi", len(files)), "mount npu-smi and /usr/local/Ascend/driver into the container")}
	case err != nil:
		return []Finding{found(p.wanted(Warn), fmt.Sprintf("npu-smi info failed: %v", err), "see that the driver is installed and this user is in its group (HwHiAiUser)")}
	}
	if p.npus = parseNPUSMI(out); len(p.npus) == 0 {
		return []Finding{found(p.wanted(Warn), "npu-smi info shows no NPU", "look at its output; in a container give it the device files (--device /dev/davinci0 --device /dev/davinci_manager --device /dev/devmm_svm --device /dev/hisi_hdc)")}
	}
	seen := p.chips()
	if !p.cann.usable() {
		seen = append(seen, found(p.wanted(Warn), fmt.Sprintf("%d NPUs are here, but CANN is not usable: bulk bytes do not go through them", len(p.npus)), "see the findings about cann"))
	}
	return append(seen, p.visibleDevices()...)
}

// chips says what each NPU is and whether it is well.
func (p *patient) chips() []Finding {
	var out []Finding
	for _, n := range p.npus {
		what := fmt.Sprintf("NPU %d: %s, health %s, memory %d of %d MB in use", n.id, n.name, n.health, n.used, n.total)
		level := Warn
		if p.Device == strconv.Itoa(n.id) {
			level = Fail
		}
		switch {
		case strings.Contains(n.name, "310P"):
			out = append(out, found(level, what+"; this chip has no HcclSend and HcclRecv", "do not give it to a process (--device): its traffic goes by shared memory and TCP"))
		case n.health != "OK":
			out = append(out, found(level, what, "npu-smi info -t health -i "+strconv.Itoa(n.id)+" says more; leave it out, or reset it"))
		case n.total > 0 && n.used > n.total*9/10:
			out = append(out, found(level, what, "another process has its memory (npu-smi info shows it): a device belongs to one process"))
		default:
			out = append(out, good("%s", what))
		}
	}
	return out
}

// visibleDevices checks the list of visible devices against what is there.
func (p *patient) visibleDevices() []Finding {
	visible := p.vars["ASCEND_RT_VISIBLE_DEVICES"]
	if visible == "" {
		return nil
	}
	var out []Finding
	for v := range strings.SplitSeq(visible, ",") {
		v = strings.TrimSpace(v)
		if id, err := strconv.Atoi(v); err != nil || !slices.ContainsFunc(p.npus, func(n npu) bool { return n.id == id }) {
			out = append(out, found(p.wanted(Warn), fmt.Sprintf("ASCEND_RT_VISIBLE_DEVICES=%s: there is no NPU %s here", visible, v), "list numbers that npu-smi info shows"))
		}
	}
	return out
}

var (
	busID  = regexp.MustCompile(`^[0-9A-Fa-f]{4}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]$`)
	ofSize = regexp.MustCompile(`(\d+)\s*/\s*(\d+)`)
)

// parseNPUSMI reads the table of `npu-smi info`. Each chip has two lines: number, name and health; then chip (and, where an NPU has two chips, its
// physical number), bus and memory. What it does not understand it leaves out.
func parseNPUSMI(out []byte) []npu {
	var all []npu
	var head npu
	for line := range strings.Lines(string(out)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 3 || !strings.HasPrefix(strings.TrimSpace(line), "|") {
			continue
		}
		first := strings.Fields(cells[0])
		second := strings.TrimSpace(cells[1])
		if busID.MatchString(second) && head.name != "" {
			n := head
			if len(first) == 2 {
				if phy, err := strconv.Atoi(first[1]); err == nil {
					n.id = phy
				}
			}
			if pairs := ofSize.FindAllStringSubmatch(cells[2], -1); len(pairs) > 0 {
				last := pairs[len(pairs)-1] // HBM comes after DDR
				n.used, _ = strconv.Atoi(last[1])
				n.total, _ = strconv.Atoi(last[2])
			}
			all = append(all, n)
			head = npu{}
			continue
		}
		head = npu{}
		if id, err := strconv.Atoi(strings.Join(first[:min(1, len(first))], "")); err == nil && len(first) == 2 && second != "" {
			head = npu{id: id, name: first[1], health: second}
		}
	}
	return all
}

// command runs the first of these programs that is there, within the patience.
func (p *patient) command(ctx context.Context, names []string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, p.Patience)
	defer cancel()
	var err error
	for _, n := range names {
		var out []byte
		if out, err = p.Commands.Run(ctx, n, args...); err == nil {
			return out, nil
		}
		if !errors.Is(err, exec.ErrNotFound) {
			break
		}
	}
	return nil, fmt.Errorf("run %s: %w", names[0], err)
}
