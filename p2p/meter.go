package p2p

import "time"

// meter measures the bandwidth and the latency of a stream of chunks, from when the first is asked for to when none is on its way.
type meter struct {
	bandwidth float64       // bytes a second
	latency   time.Duration // from asking to arrival, without the time that the bytes themselves took

	since  time.Time // of the busy period, or of the last measurement in it
	bytes  int       // since then
	chunks int
	first  time.Duration // until the first chunk of the busy period was there
	head   int           // bytes of that chunk, 0 before it
}

// sampleChunks is how many chunks make a measurement: fewer tell more of latency than of bandwidth.
const sampleChunks = 8

func (m *meter) begin(now time.Time) {
	m.since, m.bytes, m.chunks, m.head, m.first = now, 0, 0, 0, 0
}

// landed counts a chunk in. It says whether a measurement is complete: enough chunks of the present size.
func (m *meter) landed(now time.Time, n int, last bool, size int) bool {
	if m.head == 0 {
		m.head, m.first = n, now.Sub(m.since)
	}
	m.bytes += n
	m.chunks++
	took := now.Sub(m.since)
	if m.chunks < sampleChunks || m.bytes < sampleChunks/2*size || took <= 0 {
		return false
	}
	m.bandwidth = float64(m.bytes) / took.Seconds()
	if m.first > 0 { // the period has its beginning in it
		own := time.Duration(float64(m.head) / m.bandwidth * float64(time.Second))
		m.latency = max(m.first-own, 0)
	}
	if !last {
		head := m.head
		m.begin(now)
		m.head = head
	}
	return true
}
