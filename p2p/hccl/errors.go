package hccl

import "errors"

// The errors a caller may branch on. What Device.Pair fails with means that the caller stays on another backend.
var (
	// ErrBudget means that one more pair would take more device memory than this process may have.
	ErrBudget = errors.New("device memory budget is spent")
	// ErrChip means that the chips cannot do it, however often it is tried.
	ErrChip = errors.New("chip cannot do it")
	// ErrUnfit means that the two sides can never be a pair: their versions, a simulator and a chip, one device.
	ErrUnfit = errors.New("the two sides do not fit")
	// ErrRefused means that one side does not make the pair; the error says why.
	ErrRefused = errors.New("pair refused")
	// ErrBusy means that an earlier creation is still stuck in HCCL. It is over after HCCL_CONNECT_TIMEOUT.
	ErrBusy = errors.New("device is busy with a creation whose peer is gone")
	// ErrMemory means that a buffer lies on another device than the Comm's. Nothing was transferred and the Comm lives on.
	ErrMemory = errors.New("memory of another device")
	// ErrStopped means that the Device's Run has ended.
	ErrStopped = errors.New("device stopped")
)
