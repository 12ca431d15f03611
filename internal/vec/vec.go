// Package vec holds the small kernels that more than one package needs: the mixing of keys and the prefetch of addresses.
//
// A kernel with an assembly form has a plain Go twin beside it, and a test that compares the two. All functions may be called concurrently.
package vec

// Mix64 scatters a key over all 64 bits: the finalizer of MurmurHash3 (fmix64, Austin Appleby, public domain) applied to key XOR seed.
// It is a bijection of key for every seed, so two keys never share all 64 bits. Partitions, shards and initial rows are defined by it; it never changes.
func Mix64(key, seed uint64) uint64 {
	h := key ^ seed
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	h ^= h >> 33
	return h
}
