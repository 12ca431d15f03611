package ps_test

import (
	"context"
	"fmt"
	"log"

	"hcclps/ps"
)

// A cluster in this process: three servers that replicate every group, in a
// temporary folder that is removed at the end. Workers connect to Addrs over
// Network, naming Cluster.
func ExampleLocal() {
	local, err := ps.NewLocal(ps.LocalConfig{Servers: 3, Shards: 2})
	if err != nil {
		log.Fatal(err)
	}
	serving, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- local.Run(serving) }()

	if err := local.Ready(context.Background()); err != nil {
		log.Fatal(err)
	}
	for _, s := range local.Servers() {
		st := s.Status(false)
		fmt.Println(st.Name, st.Addr, "replicates", len(st.Groups), "groups")
	}

	stop()
	if err := <-served; err != nil {
		log.Fatal(err)
	}
	// Output:
	// s1 s1:7000 replicates 3 groups
	// s2 s2:7000 replicates 3 groups
	// s3 s3:7000 replicates 3 groups
}
