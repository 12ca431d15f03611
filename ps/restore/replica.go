package restore

import (
	"encoding/json"
	"fmt"

	"hcclps/ps/layout"
	"hcclps/ps/meta"
	"hcclps/ps/shard"
	"hcclps/ps/wire"
)

// allReduce is wire.JobState.Mode of a job without servers.
const allReduce = "allreduce"

// replica gives what a group would have written of a job that was trained without
// servers, whose workers write no such blobs; ok is false for other jobs.
func (r *run) replica(group uint32) (blob []byte, ok bool, err error) {
	var of wire.JobState
	if err := json.Unmarshal(r.m.Params, &of); err != nil {
		return nil, true, fmt.Errorf("parameters of the job: %w", err)
	}
	if of.Mode != allReduce {
		return nil, false, nil
	}
	if group == layout.MetaGroup {
		blob, err = meta.MakeJob(r.m, of)
	} else {
		blob, err = shard.MakeHead(r.m, of)
	}
	return blob, true, err
}
