package worker

import (
	"crypto/rand"
	"sync"

	"hcclps/p2p/backend"
	"hcclps/p2p/link"
	"hcclps/ps/wire"
)

// servers is the store of parameters that are sharded over servers: this worker's session with them.
type servers struct {
	*cluster
	cfg     Config
	session session
	sent    push      // the step under way
	pulls   sync.Pool // *pull
	prof    *profile
	coders  *coders
	half    wire.Half // how weights come
}

func newServers(cfg Config, bulk *backend.Bulk, w *waits, n *counters, k *coders) (*servers, error) {
	lc, err := link.NewClient(link.Config{
		Network: cfg.Network, Pair: bulk.Pair, Upgrade: bulk.Upgrade(), Cluster: cfg.Cluster,
		// Two processes under one name are two peers: the name alone is no id.
		ID: cfg.Worker + "-" + rand.Text()[:8], Info: owner(), Logger: cfg.Logger, Trace: cfg.Trace,
	})
	if err != nil {
		return nil, err
	}
	half, err := halfOf(cfg.PullAs)
	if err != nil {
		return nil, err
	}
	return &servers{half: half, cluster: newCluster(lc, cfg, w, n), cfg: cfg, prof: newProfile(cfg.Trace), coders: k}, nil
}
