// Package hccl is a 2-rank Comm over HCCL between two NPUs.
package hccl
