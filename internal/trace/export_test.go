package trace

// ParseFlight is what Open does with a file of a flight.
func ParseFlight(b []byte) (*Flight, error) { return parseFlight(b) }
