package ps_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/ps/layout"
	"hcclps/ps/wire"
)

// opensToBring opens a worker that said it brings its state to checkpoints.
func (c *cluster) opensToBring(name string, rank uint32, p wire.JobParams) *session {
	c.t.Helper()
	s := c.open(name, rank, p)
	open := wire.OpenRequest{Job: "j", Worker: name, Rank: rank, Params: p, Owner: "test", State: true}
	s.inc = control[wire.OpenReply](c, wire.KindOpen, open).Incarnation
	for g := range s.keys() {
		a, _ := c.message(g, &wire.Fence{Target: s.target(g), Params: p, Rank: rank, Owner: "test"})
		s.step = a.Done
	}
	return s
}

func (s *session) ref() wire.SessionRef {
	return wire.SessionRef{Job: "j", Worker: s.name, Incarnation: s.inc}
}

// brings uploads a piece of the worker's state.
func (s *session) brings(id uint64, piece, of uint32, data string) wire.Answer {
	s.c.t.Helper()
	head, err := wire.Control(wire.KindUpload, wire.UploadRequest{SessionRef: s.ref(), Checkpoint: id, Piece: piece, Pieces: of})
	if err != nil {
		s.c.t.Fatal(err)
	}
	a, _ := s.c.call(layout.MetaGroup, head, []byte(data))
	return a
}

func (s *session) mustBring(id uint64, piece, of uint32, data string) {
	s.c.t.Helper()
	if a := s.brings(id, piece, of, data); a.Status != wire.OK {
		s.c.t.Fatalf("piece %d of %d of worker %s: %+v", piece, of, s.name, a)
	}
}

// finds asks for what the worker's rank had in the checkpoint its job came from, from a piece on.
func (s *session) finds(skip uint32) (wire.Answer, string) {
	s.c.t.Helper()
	head, err := wire.Control(wire.KindResume, wire.ResumeRequest{SessionRef: s.ref(), Skip: skip})
	if err != nil {
		s.c.t.Fatal(err)
	}
	a, body := s.c.call(layout.MetaGroup, head)
	blobs, err := wire.DecodeBlobs(body)
	if err != nil {
		s.c.t.Fatal(err)
	}
	var got bytes.Buffer
	for _, b := range blobs {
		got.Write(b.Data)
	}
	return a, got.String()
}

func (s *session) mustFind(want string) {
	s.c.t.Helper()
	if a, got := s.finds(0); a.Status != wire.OK || got != want {
		s.c.t.Errorf("worker %s finds %q, want %q: %+v", s.name, got, want, a)
	}
}

// restoredUpload is a cluster into which the checkpoint in a folder was restored, to which its one worker, a, has brought these pieces.
func restoredUpload(t *testing.T, pieces ...string) (to *cluster, dir string) {
	t.Helper()
	c := savingCluster(t, 1, nil)
	c.startAll()
	s := c.opensToBring("a", 0, bsp1)
	p := c.save()
	for s.step < p.T {
		s.push()
	}
	for i, piece := range pieces {
		s.mustBring(p.Checkpoint, uint32(i), uint32(len(pieces)), piece)
	}
	c.committed(p.Checkpoint)
	dir = c.config(0).Checkpoint.Dir
	c.close()
	return restoredCluster(t, dir), dir
}

// restoredCluster is a new cluster of one server that has the newest checkpoint of a folder.
func restoredCluster(t *testing.T, dir string) *cluster {
	t.Helper()
	to := newCluster(t, 1, nil)
	to.startAll()
	if _, err := to.bring(t.Context(), dir); err != nil {
		to.close()
		t.Fatal(err)
	}
	return to
}

// Of a worker that went away in the middle of its upload there is nothing in the checkpoint, and the others have theirs.
func TestHalfAnUploadIsNone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		bsp2 := wire.JobParams{World: 2, Parts: 1, Sync: wire.BSP}
		c := savingCluster(t, 1, nil)
		c.startAll()
		dir := c.config(0).Checkpoint.Dir
		a, b := c.opensToBring("a", 0, bsp2), c.opensToBring("b", 1, bsp2)
		p := c.save()
		for a.step < p.T {
			var step sync.WaitGroup
			step.Go(a.push)
			step.Go(b.push)
			step.Wait()
		}
		a.mustBring(p.Checkpoint, 0, 2, "half")
		control[struct{}](c, wire.KindClose, wire.CloseRequest{SessionRef: a.ref(), Finished: true})
		b.mustBring(p.Checkpoint, 0, 2, "who")
		b.mustBring(p.Checkpoint, 1, 2, "le")
		c.committed(p.Checkpoint)
		c.close()

		to := restoredCluster(t, dir)
		defer to.close()
		to.open("a", 0, bsp2).mustFind("")
		to.open("b", 1, bsp2).mustFind("whole")
	})
}

// Pieces of two incarnations of a worker are not one upload: the later one begins anew.
func TestUploadOfASecondIncarnation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := savingCluster(t, 1, nil)
		c.startAll()
		dir := c.config(0).Checkpoint.Dir
		first := c.opensToBring("a", 0, bsp1)
		p := c.save()
		for first.step < p.T {
			first.push()
		}
		first.mustBring(p.Checkpoint, 0, 3, "o")
		first.mustBring(p.Checkpoint, 1, 3, "l")
		second := c.opensToBring("a", 0, bsp1)
		if a := second.brings(p.Checkpoint, 2, 3, "d"); a.Status != wire.Refused {
			t.Errorf("the last piece, of another incarnation than the first: %+v", a)
		}
		if a := first.brings(p.Checkpoint, 2, 3, "d"); a.Status != wire.Fenced {
			t.Errorf("the last piece, of a worker that was fenced off: %+v", a)
		}
		second.mustBring(p.Checkpoint, 0, 1, "new")
		c.committed(p.Checkpoint)
		c.close()

		to := restoredCluster(t, dir)
		defer to.close()
		to.open("a", 0, bsp1).mustFind("new")
	})
}

// What cannot be read is not answered as if there were no more; a checkpoint that was removed is told as empty, but not in the middle.
func TestResumeTellsOfAReadError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		to, dir := restoredUpload(t, "first", "second")
		defer to.close()
		s := to.open("a", 0, bsp1)
		s.mustFind("firstsecond")
		for _, pattern := range []string{"pack-*", "part-*"} {
			for _, file := range glob(t, dir, pattern) {
				if err := os.Truncate(file, 10); err != nil {
					t.Fatal(err)
				}
			}
			for skip := range uint32(2) {
				if a, got := s.finds(skip); a.Status != wire.Refused || got != "" || !strings.Contains(a.Detail, dir) {
					t.Errorf("from piece %d on, with damaged files %s: %q, %+v", skip, pattern, got, a)
				}
			}
		}
		for _, gone := range [][]string{glob(t, dir, "*"), {dir}} {
			for _, file := range gone {
				if err := os.RemoveAll(file); err != nil {
					t.Fatal(err)
				}
			}
			s.mustFind("")
			if a, _ := s.finds(1); a.Status != wire.Refused {
				t.Errorf("the second piece of what was removed: %+v", a)
			}
		}
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a folder that was removed is there again: %v", err)
		}
	})
}

// An answer has the pieces that have room in it together, and reads no other; of the folder it reads what this group has written.
func TestResumeReadsWhatItAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		large := strings.Repeat("0123456789abcdef", wire.UploadPiece/16)
		to, dir := restoredUpload(t, "a", "b", large, "c")
		defer to.close()
		s := to.open("a", 0, bsp1)
		finds := func(skip uint32, want string) {
			t.Helper()
			if a, got := s.finds(skip); a.Status != wire.OK || got != want {
				t.Errorf("from piece %d on %d bytes, want %d: %+v", skip, len(got), len(want), a)
			}
		}
		finds(0, "ab")
		finds(2, large)
		finds(3, "c")
		finds(4, "")
		flip(t, dir, []byte(large[:1024]))
		for _, file := range glob(t, dir, "part-*-00001-*") {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		}
		finds(0, "ab")
		finds(3, "c")
		if a, _ := s.finds(2); a.Status != wire.Refused {
			t.Errorf("the damaged piece: %+v", a)
		}
	})
}

// flip damages these bytes in the pack that has them.
func flip(t *testing.T, dir string, what []byte) {
	t.Helper()
	for _, file := range glob(t, dir, "pack-*") {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if at := bytes.Index(b, what); at >= 0 {
			b[at]++
			if err := os.WriteFile(file, b, 0o600); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("no pack in %s has the bytes", dir)
}

// glob is the files of a folder with such a name; there are some.
func glob(t *testing.T, dir, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("files %s in %s: %v, %v", pattern, dir, files, err)
	}
	return files
}

// What a worker brings to a checkpoint it finds again.
func TestUploads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := savingCluster(t, 1, nil)
		c.startAll()
		dir := c.config(0).Checkpoint.Dir
		s := c.open("a", 0, bsp1)
		s.inc = control[wire.OpenReply](c, wire.KindOpen, wire.OpenRequest{Job: "j", Worker: "a", Params: bsp1, Owner: "test", State: true}).Incarnation
		for g := range s.keys() {
			c.message(g, &wire.Fence{Target: s.target(g), Params: bsp1, Owner: "test"})
		}
		s.push()
		p := c.save()
		s.push()
		told := s.pushed()
		if told.Checkpoint != p.Checkpoint || told.Cut != p.T || told.Done != p.T {
			t.Errorf("the answer to the last push before the cut is %+v, the plan %+v", told, p)
		}
		state := bytes.Repeat([]byte("residual"), 100_000)
		ref := wire.SessionRef{Job: "j", Worker: "a", Incarnation: s.inc}
		half := len(state) / 2
		piece := func(i, of uint32) wire.Answer {
			head, err := wire.Control(wire.KindUpload, wire.UploadRequest{SessionRef: ref, Checkpoint: p.Checkpoint, Piece: i, Pieces: of})
			if err != nil {
				t.Fatal(err)
			}
			a, _ := c.call(layout.MetaGroup, head, state[int(i%2)*half:][:half])
			return a
		}
		for _, s := range []struct {
			piece, of uint32
			takes     bool
		}{{1, 2, false}, {2, 2, false}, {0, 1 << 17, false}, {0, 2, true}, {0, 2, true}, {0, 3, false}, {1, 3, false}, {1, 2, true}} {
			<-time.After(20 * time.Second) // the checkpoint waits as long as there comes something
			if a := piece(s.piece, s.of); (a.Status == wire.OK) != s.takes {
				t.Fatalf("piece %d of %d: %+v", s.piece, s.of, a)
			}
		}
		c.committed(p.Checkpoint)
		id := p.Checkpoint
		if p.Checkpoint++; piece(0, 2).Detail != wire.UploadUnwanted {
			t.Error("an upload into a checkpoint whose plan was late is wanted")
		}
		p.Checkpoint = id
		if a := piece(0, 2); a.Status != wire.Refused {
			t.Errorf("an upload into a checkpoint that is over: %+v", a)
		}
		c.close()

		to := newCluster(t, 1, nil).up()
		if _, err := to.bring(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		s = to.open("a", 0, bsp1)
		ref.Incarnation = s.inc
		for skip, want := range [][]byte{state, state[half:], nil} {
			head, err := wire.Control(wire.KindResume, wire.ResumeRequest{SessionRef: ref, Skip: uint32(skip)})
			if err != nil {
				t.Fatal(err)
			}
			_, body := to.call(layout.MetaGroup, head)
			blobs, err := wire.DecodeBlobs(body)
			var got []byte
			for _, b := range blobs {
				got = append(got, b.Data...)
			}
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("from piece %d on %d bytes in %d blobs, want %d: %v", skip, len(got), len(blobs), len(want), err)
			}
		}
	})
}

// What workers said they bring is part of a bsp checkpoint; that of a hybrid job has the dense tensors, also of a worker that has finished.
func TestCheckpointWithoutAnUploadIsAbandoned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := savingCluster(t, 1, nil).up()
		s := c.open("a", 0, bsp1)
		open := wire.OpenRequest{Job: "j", Worker: "a", Params: bsp1, Owner: "test", State: true, Mode: wire.ModeHybrid}
		s.inc = control[wire.OpenReply](c, wire.KindOpen, open).Incarnation
		for g := range s.keys() {
			c.message(g, &wire.Fence{Target: s.target(g), Params: bsp1, Owner: "test"})
		}
		p := c.save()
		for range 4 {
			s.push()
		}
		began := time.Now()
		c.abandoned(p.Checkpoint, "these workers were to bring: a;")
		if took := time.Since(began); took < 30*time.Second {
			t.Errorf("abandoned after %v", took)
		}
		p = c.save()
		for range 4 {
			s.push()
		}
		head, err := wire.Control(wire.KindUpload, wire.UploadRequest{SessionRef: wire.SessionRef{Job: "j", Worker: "a", Incarnation: s.inc}, Checkpoint: p.Checkpoint})
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(20 * time.Second)
		if a, _ := c.call(layout.MetaGroup, head, []byte("dense")); a.Status != wire.OK {
			t.Fatalf("upload: %+v", a)
		}
		c.committed(p.Checkpoint)
		m, _ := kept(t, c.folder(), p.Checkpoint)
		var job wire.JobState
		if err := json.Unmarshal(m.Params, &job); err != nil || job.Mode != wire.ModeHybrid {
			t.Errorf("job %+v, %v", job, err)
		}
	})
}
