//go:build race

package routing

// randomBodies is how many bodies the random tests compose.
const randomBodies = 4_000
