package p2p

import "time"

// meter measures the bandwidth and the latency of a stream of chunks, from when the first is asked for to when none is on its way.
type meter struct {
	bandwidth float64       // bytes a second, from one arrival to another
	latency   time.Duration // from asking to arrival, without the time that the bytes themselves took: rather the least than the mean
	known     bool          // a latency was measured

	since  time.Time     // when the period began: the first chunk was asked for; then the arrival from which bytes are counted
	bytes  int           // that arrived after that
	chunks int           // the same
	first  time.Duration // until the first chunk of the period was there, 0 when that is settled
	head   int           // bytes of that chunk, 0 before it
}

// sampleChunks is how many chunks make a measurement.
const sampleChunks = 8

func (m *meter) begin(now time.Time) {
	*m = meter{bandwidth: m.bandwidth, latency: m.latency, known: m.known, since: now}
}

// observe takes the latency of one period. What is longer than before counts little: it may be a busy machine, and not the link.
func (m *meter) observe(latency time.Duration) {
	if m.known && latency > m.latency {
		latency = m.latency + (latency-m.latency)/8
	}
	m.latency, m.known, m.first = latency, true, 0
}

// landed counts a chunk in. It says whether a measurement is complete: enough chunks that are not much smaller than the present size.
func (m *meter) landed(now time.Time, n, size int) bool {
	if m.head == 0 {
		m.head, m.first, m.since = n, now.Sub(m.since), now
		return false
	}
	m.bytes += n
	m.chunks++
	took := now.Sub(m.since)
	if m.chunks < sampleChunks || m.bytes < sampleChunks/2*size || took <= 0 {
		return false
	}
	m.bandwidth = float64(m.bytes) / took.Seconds()
	if m.first > 0 {
		own := time.Duration(float64(m.head) / m.bandwidth * float64(time.Second))
		m.observe(max(m.first-own, 0))
	}
	m.since, m.bytes, m.chunks = now, 0, 0
	return true
}
