// Package shm is a 2-rank Comm between two processes of one host, over memory that both have mapped.
package shm
