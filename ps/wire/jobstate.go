package wire

// JobState is what a checkpoint says of a job beside tables and workers, as JSON: checkpoint.Manifest.Params.
type JobState struct {
	Params  JobParams  `json:"params"`
	Mode    string     `json:"mode"`             // that the job was trained in: ps, allreduce, hybrid
	Rates   []RateFrom `json:"rates,omitempty"`  // ascending
	Order   []uint32   `json:"order,omitempty"`  // dense tensors, in the order in which AllReduce sums them
	Applied uint64     `json:"applied"`          // (worker, step) ever
	Loaded  uint64     `json:"loaded,omitempty"` // the load that the parameters come from; 0: none
}

// The modes that the servers see.
const (
	ModePS     = "ps"
	ModeHybrid = "hybrid" // dense tensors are on the workers: that of rank 0 brings them to each checkpoint
)

// RateFrom is what learning rates are multiplied by from a step on.
type RateFrom struct {
	From uint64  `json:"from"`
	Rate float32 `json:"rate"`
}
