package sqlite

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/tare-bench/tare/internal/bench"
)

// encodeValues returns values as they are stored.
func encodeValues(values []float64) []byte {
	return appendValues(make([]byte, 0, 8*len(values)), values)
}

func appendValues(b []byte, values []float64) []byte {
	for _, v := range values {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	return b
}

// decodeValues reads what encodeValues returned into dst.
func decodeValues(dst []float64, b []byte) error {
	if len(b) != 8*len(dst) {
		return errors.New("the number of values is not the number of metrics")
	}
	for i := range dst {
		dst[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
	}
	return nil
}

// encodeSeries returns the stored form of series. Each has the length of the metric's name, the
// name, the number of values and the values. Lengths and numbers are written by
// binary.AppendUvarint.
func encodeSeries(all []bench.Series) (b []byte) {
	for _, s := range all {
		b = binary.AppendUvarint(b, uint64(len(s.Metric)))
		b = append(b, s.Metric...)
		b = binary.AppendUvarint(b, uint64(len(s.Values)))
		b = appendValues(b, s.Values)
	}
	return b
}

// decodeSeries reads what encodeSeries returned.
func decodeSeries(b []byte) (all []bench.Series, err error) {
	for len(b) > 0 {
		var name, values []byte
		if name, b, err = splitPieces(b, 1); err != nil {
			return nil, err
		}
		if values, b, err = splitPieces(b, 8); err != nil {
			return nil, err
		}
		s := bench.Series{Metric: string(name), Values: make([]float64, len(values)/8)}
		if err := decodeValues(s.Values, values); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// splitPieces reads a number n at the front of b, and returns the next n pieces of the given size, and the
// rest.
func splitPieces(b []byte, size uint64) (front, rest []byte, err error) {
	n, width := binary.Uvarint(b)
	if width <= 0 || n > uint64(len(b)-width)/size {
		return nil, nil, errors.New("the series are cut off")
	}
	b = b[width:]
	return b[:n*size], b[n*size:], nil
}
