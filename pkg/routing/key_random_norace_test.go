//go:build !race

package routing

// randomBodies is how many bodies the random tests compose.
const randomBodies = 100_000
