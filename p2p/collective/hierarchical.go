package collective

import "slices"

// levels is how the ranks of a group lie on hosts.
type levels struct {
	hosts [][]int // members of each host, ascending; hosts in the order of their first members
	host  []int   // by rank: index of its host
	index []int   // by rank: its place on the host
}

// newLevels groups ranks by the numbers of their hosts. It is nil where there is only one level: one host, or one rank on each.
func newLevels(hosts []int) *levels {
	l := &levels{}
	seen := make(map[int]int)
	for r, number := range hosts {
		h, ok := seen[number]
		if !ok {
			h = len(l.hosts)
			seen[number] = h
			l.hosts = append(l.hosts, nil)
		}
		l.host = append(l.host, h)
		l.index = append(l.index, len(l.hosts[h]))
		l.hosts[h] = append(l.hosts[h], r)
	}
	if len(l.hosts) < 2 || len(l.hosts) == len(hosts) {
		return nil
	}
	return l
}

// uniform says whether all hosts have as many ranks.
func (l *levels) uniform() bool {
	return !slices.ContainsFunc(l.hosts, func(h []int) bool { return len(h) != len(l.hosts[0]) })
}

// inside is the members of a rank's host.
func (l *levels) inside(rank int) []int { return l.hosts[l.host[rank]] }

// across is the ranks that have the same place as this one on every host.
func (l *levels) across(rank int) []int {
	ranks := make([]int, len(l.hosts))
	for h := range ranks {
		ranks[h] = l.hosts[h][l.index[rank]]
	}
	return ranks
}

// leaders is the first rank of each host, but root on its own; root may be NoRoot.
func (l *levels) leaders(root int) []int {
	ranks := make([]int, len(l.hosts))
	for h, members := range l.hosts {
		ranks[h] = members[0]
	}
	if root != NoRoot {
		ranks[l.host[root]] = root
	}
	return ranks
}

// byPlace is all ranks ordered by their place on the host, then by host: so the parts of across lie together.
func (l *levels) byPlace() []int {
	var ranks []int
	for i := range l.hosts[0] {
		for h := range l.hosts {
			ranks = append(ranks, l.hosts[h][i])
		}
	}
	return ranks
}

// layeredAllReduce reduces in two levels. Where all hosts have as many ranks each rank reduces a part within its host, that part between hosts, and
// gathers within the host; else a leader does the part of its host.
func layeredAllReduce(t team, l *levels, c Choice, v vector, src, dst []byte) error {
	if !l.uniform() {
		return leaderAllReduce(t, l, c, v, src, dst)
	}
	if v.ordered {
		return layeredOrdered(t, l, c, v, src, dst)
	}
	inside, across := t.sub(l.inside(t.me)), t.sub(l.across(t.me))
	parts := even(len(src)/v.width, v.width, inside.size())
	mine := parts.part(dst, inside.me)
	if err := reduceScatter(inside, flat(c.Level0), v, src, mine, parts); err != nil {
		return err
	}
	if err := allReduce(across, c.Level1, v, mine, mine); err != nil {
		return err
	}
	return allGather(inside, flat(c.Level0), v, dst, parts)
}

// layeredOrdered reduces in rank order: parts are reduced at their owners at once, and gathered between hosts, then within.
func layeredOrdered(t team, l *levels, c Choice, v vector, src, dst []byte) error {
	all := t.sub(l.byPlace())
	parts := even(len(src)/v.width, v.width, all.size())
	mine := parts.part(dst, all.me)
	if err := meshReduceScatter(all, v, src, mine, parts); err != nil {
		return err
	}
	v.finish(mine, v.over)
	hosts := len(l.hosts)
	seat := l.index[t.me]
	if err := allGather(t.sub(l.across(t.me)), flat(c.Level1), v, dst, parts[seat*hosts:(seat+1)*hosts+1]); err != nil {
		return err
	}
	places := make(cut, 0, len(l.hosts[0])+1)
	for i := 0; i < len(parts); i += hosts {
		places = append(places, parts[i])
	}
	return allGather(t.sub(l.inside(t.me)), flat(c.Level0), v, dst, places)
}

// flat is an algorithm that works on parts, which a tree does not.
func flat(a Algorithm) Algorithm {
	if a == Tree {
		return Mesh
	}
	return a
}

func leaderAllReduce(t team, l *levels, c Choice, v vector, src, dst []byte) error {
	root := l.hosts[0][0]
	if err := layeredReduce(t, l, c, v, src, dst, root); err != nil {
		return err
	}
	if t.me == root {
		v.finish(dst, v.over)
	}
	return layeredBroadcast(t, l, c, v, dst, root)
}

// layeredReduce reduces within each host to its leader, and between leaders to root, which leads its host. out is scratch at other ranks.
func layeredReduce(t team, l *levels, c Choice, v vector, src, out []byte, root int) error {
	if v.ordered {
		return starReduce(t, v, src, out, root)
	}
	leaders := l.leaders(root)
	leader := leaders[l.host[t.me]]
	members := l.inside(t.me)
	if err := reduceTo(t.sub(members), c.Level0, v, src, out, slices.Index(members, leader)); err != nil {
		return err
	}
	if t.me != leader {
		return nil
	}
	return reduceTo(t.sub(leaders), c.Level1, v, out, out, l.host[root])
}

// layeredBroadcast copies data of root to the leaders, and from each to its host.
func layeredBroadcast(t team, l *levels, c Choice, v vector, data []byte, root int) error {
	leaders := l.leaders(root)
	leader := leaders[l.host[t.me]]
	if t.me == leader {
		if err := broadcast(t.sub(leaders), c.Level1, v, data, l.host[root]); err != nil {
			return err
		}
	}
	members := l.inside(t.me)
	return broadcast(t.sub(members), c.Level0, v, data, slices.Index(members, leader))
}
