package checkpoint

import (
	"fmt"
	"strconv"
	"strings"
)

// kind is what a file of the folder is, by the first word of its name.
type kind string

const (
	kindManifest kind = "checkpoint"
	kindPart     kind = "part"
	kindPack     kind = "pack"
	kindIntent   kind = "intent"
	temporary         = ".tmp"
)

// manifestName is the file that makes a checkpoint exist.
func manifestName(id uint64) string { return fmt.Sprintf("%s-%020d.json", kindManifest, id) }

// stem names what one writer writes: pack-STEM-0000, part-STEM, intent-STEM.
func stem(id uint64, group uint32, owner, tag string) string {
	return fmt.Sprintf("%020d-%05d-%s-%s", id, group, owner, tag)
}

// fileName is a name taken apart.
type fileName struct {
	kind kind
	id   uint64
	temp bool // not yet renamed
}

// IsFile reports whether a file of that name belongs to a folder of checkpoints, whole or not yet.
func IsFile(name string) bool {
	_, ok := parseName(name)
	return ok
}

// parseName takes the name of a file of ours apart; ok is false for files of
// others.
func parseName(name string) (f fileName, ok bool) {
	word, rest, _ := strings.Cut(name, "-")
	f.kind = kind(word)
	rest, f.temp = strings.CutSuffix(rest, temporary)
	switch f.kind {
	case kindManifest:
		if rest, ok = strings.CutSuffix(rest, ".json"); !ok {
			return f, false
		}
		if f.temp {
			rest, _, ok = strings.Cut(rest, "-")
		}
	case kindPart, kindPack, kindIntent:
		rest, _, ok = strings.Cut(rest, "-")
	default:
		return f, false
	}
	if !ok || len(rest) != 20 {
		return f, false
	}
	id, err := strconv.ParseUint(rest, 10, 64)
	f.id = id
	return f, err == nil && id > 0
}

// ownerOf is who wrote a part, a pack or an intent, by its name; empty for other files.
func ownerOf(name string) string {
	f, ok := parseName(name)
	if !ok || f.kind == kindManifest {
		return ""
	}
	words := strings.Split(strings.TrimSuffix(name, temporary), "-") // kind, checkpoint, group, owner (which may have some itself), tag
	end := len(words) - 1
	if f.kind == kindPack {
		end-- // and the pack's number
	}
	if end <= 3 {
		return ""
	}
	return strings.Join(words[3:end], "-")
}

// plain reports whether a name of a file, taken from a file, can only be in the
// folder and is of that kind.
func plain(name string, want kind) bool {
	f, ok := parseName(name)
	return ok && f.kind == want && !f.temp && !strings.ContainsAny(name, "/\x00")
}

// validOwner bounds what may be in a file name.
func validOwner(owner string) bool {
	if owner == "" || len(owner) > 64 || owner[0] == '.' {
		return false
	}
	for _, r := range owner {
		if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.", r) {
			return false
		}
	}
	return true
}
