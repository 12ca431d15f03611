// Package world makes N processes ranks of one world: each knows who the others are, has Comms with them, and hears soon when one of them is dead
// or has failed, by name.
//
//	cfg, err := world.Env(os.LookupEnv)       // or Table.Config: who am I, and where does the world meet
//	cfg.Network, cfg.Pair = network, bulk.Pair
//	w, err := world.Open(ctx, cfg)            // returns when all ranks are there
//	go w.Run(ctx)                             // in an errgroup
//	comm, err := w.Comm(ctx, "gradients", nil)
//
// # Rendezvous
//
// Rank 0 listens at Master while the world forms; the others dial it until it is there, and say who they are. It refuses a caller of another
// version, job or world size, and a second one that claims a rank; the error names both. When all are there it tells each rank of all, and the number of
// this world, drawn at random, and its epoch. A rank that dies before that is missing again. Who waits in vain says which ranks are missing.
//
// Each rank above 0 listens for the ranks below it, which dial it for the pairs of a Comm.
//
// # Who is alive
//
// Every rank keeps its connection to rank 0. Both send heartbeats every 500 ms, and 2 s of silence, or the end of the connection, is death. Rank 0 tells
// all others, so that a death is heard within 3 s; the first one is the World's verdict. [World.Fail] is the same for a rank that cannot go on. When the
// connection to rank 0 is lost, the verdict is on rank 0. A rank whose Run ends has left, which is no failure; after rank 0 has left, deaths are no
// longer heard of, but through Comms.
//
// A World that has failed stays so. Its Comms die of the verdict; Positions can still be asked for, until Run ends.
//
// [World.Report] and [World.Positions] let ranks tell each other where they are, so that an error can say who called what. Nothing of it is sent
// before somebody asks, and a rank answers whatever its user does.
//
// # Comms
//
// [World.Comm] makes a [Comm] of any ranks, all of which call it with the same name; it has a pair of [Config.Pair] for each other rank, and
// hands on the pair's own requests, with errors that name the rank in the World. Where a peer is lost the error waits, at most for a heartbeat, for the
// verdict: the peer may have gone only because of another.
//
// # Goroutines
//
// Open starts nothing that outlives it. Run has two goroutines for each connection to another rank, one that accepts, one on rank 0 that asks for
// positions, and those of the pairs.
//
// # Wire format
//
// All integers are little endian; text is a u16 length and bytes. A connection begins with a hello of the dialler and its answer, each a u32 length, at
// most 4096, and so many bytes:
//
//	hello:  "hcwd", u16 version 1, u8 purpose, u8 stripe, u8 stripes, u16 attempt, u32 from, u32 to, u32 world size, u64 id, u32 epoch,
//	        text job, text address, text host, text comm, text ranks, text info
//	answer: "hcwd", u16 version, u8 1 if refused, text refusal
//
// Purpose 1 is joining: id is drawn by the process, address is where it listens, host the machine it is on; stripe to attempt, to, epoch, comm
// and ranks are zero. Purpose 2 is one of the stripes of a pair: id is that of the world, ranks are those of the comm as people write them; the answer comes when
// the acceptor has opened the comm. A new attempt replaces all connections of an earlier one. A pair's connections belong to [Config.Pair] from then on.
// One that has joined carries frames: u32 length of what follows, u8 kind, payload:
//
//	 1 heartbeat  nothing
//	 2 missing    text: rank 0 says who is missing still
//	 3 abandon    text: the world will not form, and why
//	 4 member     u32 rank, text address, text host, text info
//	 5 ready      u64 id of the world, u32 epoch; every member was told before
//	 6 failed     u32 rank, text reason; to rank 0 of oneself, from rank 0 the verdict
//	 7 left       u32 rank, text reason; in the same way
//	 8 ask        u64 query; to rank 0 for all positions, from rank 0 for one's own
//	 9 position   u64 query, u32 rank, at most 256 bytes with a u16 length
//	10 answered   u64 query: those were all
package world
