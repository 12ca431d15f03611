package acl

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"
)

// structs is the field list of the C headers, for the compiler to lay out.
const structs = `
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdbool.h>
typedef struct { int32_t sendRecvType; void *buf; uint64_t count; int32_t dataType; uint32_t remoteRank; } Item;
typedef struct { char internal[4108]; } Root;
typedef struct { uint32_t id; int32_t type; uint32_t pageSize; uint32_t rsv[4]; } Attr;
typedef struct {
	size_t size; uint32_t magicWord; uint32_t version; uint64_t reserved;
	uint32_t hcclBufferSize, hcclDeterministic; char hcclCommName[128]; char hcclUdi[128];
	uint32_t hcclOpExpansionMode, hcclRdmaTrafficClass, hcclRdmaServiceLevel, hcclWorldRankID; uint64_t hcclJobID;
	uint8_t aclGraphZeroCopyEnable; int32_t hcclExecTimeOut; char hcclAlgo[1600]; char hcclRetryEnable[50];
	char hcclRetryParams[128]; char hcclBufferName[128]; uint32_t hcclQos; uint64_t symWin; uint32_t sqDepth;
} Config;
#define O(n, t, f) printf("%s %zu\n", n, offsetof(t, f))
int main(void) {
	printf("item %zu\n", sizeof(Item)); O("item.buf", Item, buf); O("item.count", Item, count);
	O("item.type", Item, dataType); O("item.peer", Item, remoteRank);
	printf("root %zu\n", sizeof(Root)); printf("attr %zu\n", sizeof(Attr)); O("attr.type", Attr, type);
	O("magic", Config, magicWord); O("version", Config, version); O("buffer", Config, hcclBufferSize);
	O("deterministic", Config, hcclDeterministic); O("name", Config, hcclCommName);
	O("traffic", Config, hcclRdmaTrafficClass); O("service", Config, hcclRdmaServiceLevel);
	O("exec", Config, hcclExecTimeOut);
	O("end1", Config, hcclCommName); O("end5", Config, hcclWorldRankID); O("end8", Config, hcclBufferName);
	O("end9", Config, hcclQos);
	return 0;
}`

func TestLayoutsAreThoseOfTheCompiler(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skipf("%s needs a C compiler: %v", t.Name(), err)
	}
	dir := t.TempDir()
	source := filepath.Join(dir, "layout.c")
	if err := os.WriteFile(source, []byte(structs), 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "layout")
	if out, err := exec.CommandContext(t.Context(), cc, "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("compile: %v: %s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), program).Output()
	if err != nil {
		t.Fatal(err)
	}
	var item SendRecvItem
	var attr PointerAttributes
	want := map[string]uintptr{
		"item": unsafe.Sizeof(item), "item.buf": unsafe.Offsetof(item.Buf), "item.count": unsafe.Offsetof(item.Count),
		"item.type": unsafe.Offsetof(item.Type), "item.peer": unsafe.Offsetof(item.Peer),
		"root": unsafe.Sizeof(RootInfo{}), "attr": unsafe.Sizeof(attr), "attr.type": unsafe.Offsetof(attr.Type),
		"magic": offMagic, "version": offVersion, "buffer": offBufferSize, "deterministic": offDeterministic,
		"name": offCommName, "traffic": offTrafficClass, "service": offServiceLevel, "exec": offExecTimeout,
		"end1": uintptr(layoutOf(0).size), "end5": uintptr(layoutOf(5).size), "end8": 2098, "end9": 2228,
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != len(want) {
		t.Fatalf("%d figures of %d:\n%s", len(lines), len(want), out)
	}
	for _, line := range lines {
		var name string
		var got uintptr
		if _, err := fmt.Sscan(line, &name, &got); err != nil {
			t.Fatal(err)
		}
		if want[name] != got {
			t.Errorf("%s: %d here, %d by the compiler", name, want[name], got)
		}
	}
}

func TestCommConfig(t *testing.T) {
	le := binary.LittleEndian
	tests := []struct {
		capability int
		version    uint32
		size       int
	}{{0, 1, 32}, {2, 1, 32}, {3, 5, 300}, {5, 5, 300}, {8, 5, 300}, {9, 8, 2104}, {11, 8, 2104}, {12, 9, 2232}, {99, 9, 2232}}
	for _, test := range tests {
		raw := CommConfig{BufferMiB: 16, Name: strings.Repeat("n", 200), ExecTimeout: 68}.encode(test.capability)
		if len(raw) != test.size || le.Uint64(raw) != uint64(test.size) || le.Uint32(raw[12:]) != test.version {
			t.Errorf("capability %d: size %d (%d), version %d", test.capability, len(raw), le.Uint64(raw), le.Uint32(raw[12:]))
		}
		if le.Uint32(raw[8:]) != 0xF0F0F0F0 || le.Uint64(raw[16:]) != 0 || le.Uint32(raw[24:]) != 16 || le.Uint32(raw[28:]) != 0xFFFFFFFF {
			t.Errorf("capability %d: header %x", test.capability, raw[:32])
		}
		if test.version >= 5 {
			if name := string(raw[32:160]); name != strings.Repeat("n", 127)+"\x00" {
				t.Errorf("capability %d: name %q", test.capability, name)
			}
			if le.Uint32(raw[292:]) != 0xFFFFFFFF || le.Uint32(raw[296:]) != 0xFFFFFFFF || le.Uint32(raw[288:]) != 0 {
				t.Errorf("capability %d: %x", test.capability, raw[288:300])
			}
		}
		if test.version >= 8 && (le.Uint32(raw[316:]) != 68 || raw[312] != 0 || le.Uint64(raw[304:]) != 0) {
			t.Errorf("capability %d: %x", test.capability, raw[300:320])
		}
	}
	if raw := (CommConfig{Deterministic: true}).encode(12); le.Uint32(raw[24:]) != 0xFFFFFFFF || le.Uint32(raw[28:]) != 1 || le.Uint32(raw[316:]) != 0xFFFFFFFF {
		t.Errorf("defaults: %x", raw[:32])
	}
}
