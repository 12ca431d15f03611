// Package acl binds libascendcl, libhccl and libhcomm at run time.
package acl

import "github.com/ebitengine/purego"

var _ = purego.RTLD_NOW
