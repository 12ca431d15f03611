package meta

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"hcclps/ps/wire"
)

// restoring is a job that shards are being given from a checkpoint.
type restoring struct {
	Load       uint64 `json:"load"`
	Checkpoint uint64 `json:"checkpoint"`
	Dir        string `json:"dir"`
	Step       uint64 `json:"step"`
	State      []byte `json:"state"`
}

// jobVersion is the format of a job in a checkpoint.
const jobVersion = 1

// jobBlob is a job of this group as a checkpoint has it, as JSON.
type jobBlob struct {
	Version int  `json:"version"`
	Job     *job `json:"job"`
}

// encodeJob writes a job for a checkpoint.
func encodeJob(j *job) ([]byte, error) {
	c := *j
	c.Plan, c.Restored, c.Saved = nil, nil, 0
	b, err := json.Marshal(jobBlob{Version: jobVersion, Job: &c})
	if err != nil {
		return nil, fmt.Errorf("encode job: %w", err)
	}
	return b, nil
}

// decodeJob reads one. Its sessions wait for being opened.
func decodeJob(b []byte) (*job, error) {
	var blob jobBlob
	if err := json.Unmarshal(b, &blob); err != nil {
		return nil, fmt.Errorf("decode job: %w", err)
	}
	if blob.Version != jobVersion || blob.Job == nil {
		return nil, fmt.Errorf("decode job: version %d, this program reads %d", blob.Version, jobVersion)
	}
	j := blob.Job
	if err := j.valid(); err != nil {
		return nil, fmt.Errorf("decode job: %w", err)
	}
	for i := range j.Workers {
		w := &j.Workers[i]
		if w.Incarnation++; w.State == sessionOpen { // as the shards count
			w.State = sessionRestored
		}
	}
	return j, nil
}

// restoreJob begins or ends the restore of a job.
func (s *state) restoreJob(r wire.RestoreRequest) result {
	no := func(format string, args ...any) result {
		return result{Answer: refuse(wire.Refused, "restore job %.300q: "+format, append([]any{r.Job}, args...)...)}
	}
	j, now := s.Jobs[r.Job], s.Restores[r.Job]
	switch {
	case !wire.ValidName(r.Job) || r.Load == 0:
		return no("a restore needs a number and a job's name")
	case j != nil && j.Restored != nil && j.Restored.Load == r.Load:
		return result{} // it came late
	case j != nil && !j.empty():
		return no("the job has begun here: restore into a cluster that does not know it, or under another name (--job)")
	case r.Complete && (now == nil || now.Load != r.Load):
		return no("another restore of it has begun")
	case r.Complete:
		return s.endRestore(r.Job, now)
	}
	if now != nil && now.Load != r.Load { // shards have pieces of it, which no other may be mixed with
		return no("one from %.600s@%d is not complete: run that one again to its end, for as many workers, or restore under another name (--job)", now.Dir, now.Checkpoint)
	}
	if _, err := decodeJob(r.State); err != nil {
		return no("%v", err)
	}
	if s.Restores == nil {
		s.Restores = map[string]*restoring{}
	}
	delete(s.Jobs, r.Job) // it was empty; shards begin to count its plans anew with what they are given
	s.Restores[r.Job] = &restoring{Load: r.Load, Checkpoint: r.Checkpoint, Dir: r.Dir, Step: r.Step, State: slices.Clone(r.State)}
	return result{}
}

// endRestore makes the job exist: all shards have it.
func (s *state) endRestore(name string, r *restoring) result {
	j, err := decodeJob(r.State)
	if err != nil {
		return result{Answer: refuse(wire.Refused, "restore job %q: %v", name, err)}
	}
	j.Restored = &restored{Load: r.Load, Checkpoint: r.Checkpoint, Dir: r.Dir, Step: r.Step}
	s.Jobs[name] = j
	delete(s.Restores, name)
	return result{}
}

// restored is what a job came from.
type restored struct {
	Load       uint64 `json:"load"`
	Checkpoint uint64 `json:"checkpoint"`
	Dir        string `json:"dir"`
	Step       uint64 `json:"step"`
}

func (r *restored) said() *wire.Restored {
	if r == nil {
		return nil
	}
	return &wire.Restored{Checkpoint: r.Checkpoint, Step: r.Step, Dir: r.Dir}
}

// WithWorkers is a job of a checkpoint with other workers: names of its ranks.
func WithWorkers(state []byte, names []string) ([]byte, error) {
	var blob jobBlob
	if err := json.Unmarshal(state, &blob); err != nil {
		return nil, fmt.Errorf("decode job: %w", err)
	}
	if blob.Job == nil || blob.Job.Params.Sync != wire.BSP {
		return nil, errors.New("only bsp jobs can have other workers")
	}
	j := blob.Job
	old := j.Workers
	j.Workers, j.Params.World = nil, uint32(len(names))
	for rank, name := range names {
		w := worker{Name: name, Rank: uint32(rank), Incarnation: 1, Owner: "restored", State: sessionOpen}
		if i := slices.IndexFunc(old, func(o worker) bool { return o.Name == name }); i >= 0 {
			w.Incarnation = old[i].Incarnation
		}
		j.Workers = append(j.Workers, w)
	}
	return json.Marshal(blob)
}
