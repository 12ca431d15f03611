//go:build !amd64

package vec

func axpbyFast(_ *float32, _ float32, _ *float32, _ float32, _ *float32, _ int) int { return 0 }

func sgdFast(_ *float64, _, _ *float32, _ int) int                                 { return 0 }
func momentumFast(_ *float64, _, _, _ *float32, _ int) int                         { return 0 }
func nesterovFast(_ *float64, _, _, _ *float32, _ int) int                         { return 0 }
func rmsFast(_ *float64, _, _, _ *float32, _ int) int                              { return 0 }
func adamFast(_ *float64, _, _, _, _ *float32, _ int) int                          { return 0 }
func amsgradFast(_ *float64, _, _, _, _, _ *float32, _ int) int                    { return 0 }
func ftrlFast(_ *float64, _, _, _, _ *float32, _ int) int                          { return 0 }
func sumSquaresFast(_ float64, _ *float64, _, _ *float32, _ int) int               { return 0 }
func adamNormsFast(_ *adamNormsCoeffs, _ *float64, _, _, _, _ *float32, _ int) int { return 0 }

func tileShape() (rows, cols int) { return 0, 0 }

func gemmTile(_ int, _ *float32, _, _ int, _, _ *float32, _ int, _ bool) {}
func transpose8(_ *float32, _ int, _ *float32, _ int)                    {}

func finiteFast(_ *float32, _ int) int { return 0 }

func gatherRowsFast(_ *float32, _ **float32, _, _ int) bool { return false }
