package layout_test

import (
	"fmt"
	"log"

	"hcclps/ps/layout"
)

func Example() {
	l, err := layout.New(layout.Config{
		Cluster: "clicks", Replicas: 3, Shards: 4,
		Members: []layout.Member{{ID: "a", Name: "s1", Addr: "h1:7000"}, {ID: "b", Name: "s2", Addr: "h2:7000"}, {ID: "c", Name: "s3", Addr: "h3:7000"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, key := range []uint64{1, 2, 3} {
		g := l.Group(key)
		fmt.Println("key", key, "partition", l.Partition(key), "group", g, "servers", l.Replicas(g))
	}
	// Output:
	// key 1 partition 721 group 3 servers [a b c]
	// key 2 partition 234 group 1 servers [b c a]
	// key 3 partition 45 group 1 servers [b c a]
}
