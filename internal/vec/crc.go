package vec

import (
	"encoding/binary"
	"hash/crc32"
)

// castagnoli is CRC-32C, of which the standard library has the CPU's instruction.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// crcFold is how many bytes stand for all that were folded into them.
const crcFold = 256

// crcWorth is from how many bytes on folding gains.
const crcWorth = 8 * crcFold

// CRC32C continues the CRC-32C (Castagnoli) sum over b, 0 being the sum of nothing: hash/crc32's values in a third of its time where the CPU multiplies
// polynomials in 512 bits, else at its speed.
//
// The bytes are folded, 256 onto the next 256, by multiples of x^2048 modulo the polynomial, until 256 are left that have the same remainder (Gopal et
// al., Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction, Intel 2009).
func CRC32C(sum uint32, b []byte) uint32 {
	if len(b) >= crcWorth && canFoldCRC() {
		var state [crcFold]byte
		copy(state[:], b)
		binary.LittleEndian.PutUint32(state[:], binary.LittleEndian.Uint32(state[:])^^sum)
		blocks := len(b)/crcFold - 1
		sum = ^foldCRC(&state, &b[crcFold], blocks)
		b = b[(blocks+1)*crcFold:]
	}
	return crc32.Update(sum, castagnoli, b)
}
