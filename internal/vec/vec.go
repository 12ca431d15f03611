// Package vec holds the kernels that more than one package needs: the mixing of keys, the prefetch and gathering of rows, sums and products of float32
// vectors, the update loops of the optimizers, the matrix product, what codecs of float32 are made of, and views of memory.
//
// # Kernels and twins
//
// A kernel with an assembly form has a plain Go twin beside it, which also takes the last elements where a kernel wants whole vectors. The unit is
// chosen once, at start: AVX-512 (F, BW, DQ, VL), AVX2 (with FMA, F16C and BMI2) or, on arm64, NEON for the simplest; HCCLPS_NOSIMD=1 in the environment
// forces the twins. Kernels for amd64 are written by the generator in gen, a module of its own; go generate runs it.
//
// # Same bits
//
// All but the matrix product give the same bits in every unit and on every CPU, so replicas may differ in machines: products are never fused with sums, sums of
// many elements have a fixed number of partial sums, and what the update loops store has one NaN. See Add for the one freedom, and Gemm for its own rule.
//
// All functions may be called concurrently, on memory that does not overlap.
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

// Unmix64 is the key whose mix under seed is h.
func Unmix64(h, seed uint64) uint64 {
	h ^= h >> 33
	h *= 0x9cb4b2f8129337db // the inverse of Mix64's second factor modulo 2^64
	h ^= h >> 33
	h *= 0x4f74430c22a54005 // and of its first
	h ^= h >> 33
	return h ^ seed
}
