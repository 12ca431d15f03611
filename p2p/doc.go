// Package p2p moves bulk bytes between numbered ranks, and nothing else.
package p2p
