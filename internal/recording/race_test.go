//go:build race

package recording

// raceDetector makes everything many times slower.
const raceDetector = true
