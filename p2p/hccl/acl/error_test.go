package acl

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestErrorsSayWhatToDo(t *testing.T) {
	tests := []struct {
		err    *Error
		action Action
		says   []string
	}{
		{
			newError(hcclRecv, true, 9, "[PID: 7] EI0006: Getting socket times out.\n"), Rebuild,
			[]string{"HcclRecv", "HcclResult 9 (HCCL_E_TIMEOUT)", "EI0006", "HCCL_CONNECT_TIMEOUT", "Getting socket times out"},
		},
		{newError(hcclGetRootInfo, true, 7, "EI0019 port"), Rebuild, []string{"HCCL_IF_BASE_PORT"}},
		{newError(hcclCommDestroy, true, 20, ""), Retry, []string{"HCCL_E_AGAIN"}},
		{newError(hcclSend, true, 1, ""), Leave, []string{"HCCL_E_PARA"}},
		{newError(aclrtMalloc, false, 207018, "EL0004"), Rebuild, []string{"aclError 207018 (RT_DEVICE_OOM)", "EL0004", "memory is used up"}},
		{newError(aclrtRecordEvent, false, 107003, ""), Leave, []string{"RT_STREAM_CONTEXT", "thread"}},
		{newError(aclrtSynchronizeStream, false, 507048, "EE9999 then EI0002"), Rebuild, []string{"EI0002", "exec time-out"}},
		{newError(aclrtSynchronizeStream, false, 424242, ""), Rebuild, []string{"424242 (unknown code)"}},
		{newError(hcclSend, true, 4, strings.Repeat("x ", 5000)), Rebuild, []string{"..."}},
	}
	for _, test := range tests {
		text := test.err.Error()
		for _, want := range test.says {
			if !strings.Contains(text, want) {
				t.Errorf("%q does not say %q", text, want)
			}
		}
		if ActionOf(fmt.Errorf("do: %w", test.err)) != test.action {
			t.Errorf("%s: action %v, want %v", text, test.err.Action(), test.action)
		}
		if len(text) > 1000 {
			t.Errorf("an error of %d bytes", len(text))
		}
	}
}

func TestErrorClasses(t *testing.T) {
	wrap := func(s Symbol, hccl bool, code int32) error { return fmt.Errorf("do: %w", newError(s, hccl, code, "")) }
	if !IsAgain(wrap(hcclCommDestroy, true, 20)) || IsAgain(wrap(hcclSend, false, 20)) || IsAgain(errors.New("x")) {
		t.Error("IsAgain")
	}
	if !IsWaitTimeout(wrap(aclrtSynchronizeStream, false, 507046)) || !IsWaitTimeout(wrap(aclrtSynchronizeStream, false, 507047)) ||
		IsWaitTimeout(wrap(hcclSend, false, 507048)) {
		t.Error("IsWaitTimeout")
	}
	if !IsNoMemory(wrap(aclrtMalloc, false, 207001)) || !IsNoMemory(wrap(hcclSend, true, 24)) || IsNoMemory(wrap(hcclSend, true, 4)) {
		t.Error("IsNoMemory")
	}
}

func TestActionOfOthers(t *testing.T) {
	if ActionOf(errors.New("x")) != Rebuild || ActionOf(nil) != Rebuild {
		t.Error("an error of ours is not for rebuilding")
	}
}

func FuzzFaultCode(f *testing.F) {
	f.Add("EI0006: Getting socket times out")
	f.Add("EE9999 EI0002")
	f.Add("")
	f.Fuzz(func(t *testing.T, message string) {
		e := newError(hcclSend, true, 9, message)
		if e.EI != "" && (len(e.EI) != 6 || !strings.Contains(message, e.EI)) {
			t.Errorf("code %q in %q", e.EI, message)
		}
		if text := e.Error(); len(text) > 1500 {
			t.Errorf("%d bytes", len(text))
		}
	})
}
