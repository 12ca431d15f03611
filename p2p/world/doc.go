// Package world makes N processes ranks of one world: each knows who the others are, has Comms with them, and hears soon when one of them is dead
// or has failed, by name.
//
//	cfg, err := world.Env(os.LookupEnv)       // or Table.Config: who am I, and where does the world meet
//	cfg.Network, cfg.Pair = network, bulk.Pair
//	w, err := world.Open(ctx, cfg)            // returns when all ranks are there
//	go w.Run(ctx)                             // in an errgroup
//	comm, err := w.Comm(ctx, "gradients", nil)
//	...
//	w, err = w.Rebuild(ctx)                   // after <-w.Failed(): those that are left, and who came anew
//
// # Rendezvous
//
// A world meets at Master. A [Host] listens there, or else the process of rank 0; the others dial it until it is there,
// and say who they are. It refuses a caller of another version, job or world size, or with other [Config.Terms], and a
// second one that claims a rank; the error names both. When all are there it tells each rank of all, and the number of
// this world, drawn at random, and its epoch. A rank that dies before that is missing again. Who waits in vain says
// which ranks are missing.
//
// Where no address is known before, [Config.Register] is a note that all processes can read and replace: the first that finds none, or an address at which
// nobody is, becomes the rendezvous and writes down its own. It writes the number of each world before it makes it, and makes it only if the
// note was still its own: then processes that do not reach each other do not both go on. Who finds in the note a world that was made without it is refused,
// unless all that could be in that have come.
//
// There is one rendezvous at a time, since one process alone can listen at an address, or hold the note. It decides who
// is in an epoch, and nobody else does: that is why ranks that are cut off cannot make a second world.
//
// Each rank listens for the ranks below it, which dial it for the pairs of a Comm.
//
// # Who is alive
//
// Every rank keeps its connection to the rendezvous. Both send heartbeats every 500 ms, and 2 s of silence, or the end
// of the connection, is death. The rendezvous tells all, so that a death is heard within 3 s; the first one is the
// World's verdict. [World.Fail] is the same for a rank that cannot go on. A rank that has left and is missed, as who
// fails because of it says, is the verdict, not that one. When the rendezvous is lost, the verdict is on the rank in
// whose process it was, or on none. A rank whose Run ends has left, which is no failure; after the rank with the
// rendezvous has left, deaths are no longer heard of, but through Comms.
//
// A World that has failed stays so. Its Comms die of the verdict; Positions can still be asked for, until Run ends.
//
// [World.Report] and [World.Positions] let ranks tell each other where they are, so that an error can say who called what, and [World.Health] who has been
// silent for how long. Nothing of it is sent before somebody asks, and a rank answers whatever its user does. A [Scope] is the same for some ranks, whose
// failure in it is not the World's.
//
// # Epochs
//
// [World.Rebuild] makes the next epoch of the ranks that call it, the survivors, and of new processes that wait in
// Open: a restarted one is new, and the rank it was started as means nothing then. With a [Config.Name] it is refused
// if one of that name lives, which has Suspect and a Heartbeat to show that. The rendezvous waits for all ranks that
// are not known to be dead, at most for Gather (10 s; with a Register a silent one is not), and tells those that did
// not come that the others go on without them; such a straggler is refused, by name, and may Open anew. A rank that
// waits there for 2 s with nobody dead becomes the verdict of the old epoch, so that the others notice. Ranks are
// dense, and in the order in which processes came into the world.
//
// If the rendezvous dies with its rank, the survivors on that machine take over its address, which nobody else could have, and the rest is the same: each says
// in which epoch it was last, as which rank of how many, and whom it knows to be dead. Where nobody is left on that machine, or the address is another
// machine's, there is no next epoch: use a Host for that, which dies with no rank, or a Register.
//
// # Comms
//
// [World.Comm] makes a [Comm] of any ranks, all of which call it with the same name; it has a pair of [Config.Pair] for each other rank, and
// hands on the pair's own requests, with errors that name the rank in the World. Where a peer is lost the error waits, at most for a heartbeat, for the
// verdict: the peer may have gone only because of another.
//
// # Goroutines
//
// Open starts nothing that outlives it, but for one goroutine that keeps the address of a rendezvous. Run has two goroutines for the connection to
// the rendezvous, one that accepts, and those of the pairs; and at the rendezvous two for each rank, one that asks for positions, and one that watches time.
//
// # Wire format
//
// All integers are little endian; text is a u16 length and bytes. A connection begins with a hello of the dialler and its answer, each a u32 length, at
// most 4096, and so many bytes:
//
//	hello:  "hcwd", u16 version 2, u8 purpose, u8 stripe, u8 stripes, u16 attempt, u32 from, u32 to, u32 world size, u64 id, u32 epoch,
//	        u32 born, u32 number, u32 dead, u32 lost, u64 last, text job, text address, text host, text comm, text ranks, text info,
//	        text name, text terms
//	answer: "hcwd", u16 version, u8 1 if refused, text refusal
//
// Purpose 1 is joining: id is drawn by the process, address is where it listens, host the machine it is on; stripe to
// attempt, to, comm and ranks are zero. Of one that comes back, epoch, last, from and size are those of its last world,
// its number and this process's rank in it, born and number the epoch in which it came in and its rank then, dead the
// rank it holds for dead, and lost the one with the rendezvous if that is gone, each plus 1, or 0; all are zero, and
// from is the rank it was started as, of one that is new. Purpose 2 is one of the stripes of a pair: id is that of the
// world, ranks are those of the comm as people write them; the answer comes when the acceptor has opened the comm. A
// new attempt replaces all connections of an earlier one. A pair's connections belong to [Config.Pair] from then on.
// One that has joined carries frames: u32 length of what follows, u8 kind, payload:
//
//	 1 heartbeat  nothing
//	 2 missing    text: the rendezvous says who is missing still
//	 3 abandon    text: the world will not form, or not with this process, and why
//	 4 member     u32 rank, text address, text host, text info; ranks in order
//	 5 ready      u64 id of the world, u32 epoch, u32 rank of this process, u32 rank of the rendezvous plus 1 or 0, text its host, text its info;
//	              every member was told before
//	 6 failed     u32 rank, text scope, text reason; to the rendezvous of oneself, from it the verdict; of the world if scope is empty
//	 7 left       u32 rank, empty text, text reason; in the same way
//	 8 ask        u64 query, text scope; to the rendezvous for all positions, from it for one's own
//	 9 position   u64 query, u32 rank, u32 milliseconds since it was heard of or 2^32-1, at most 256 bytes with a u16 length
//	10 answered   u64 query: those were all
//	11 rebuild    text address: this rank waits for the next epoch, and listens there then
//	12 waiting    u32 count of processes that wait to be let in
//	13 moved      nothing: the rendezvous is not here any more
package world
