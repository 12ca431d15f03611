// Package link is the control plane between two processes.
package link
