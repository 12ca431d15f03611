// Package collective carries out operations in which all ranks of a group take part.
package collective
