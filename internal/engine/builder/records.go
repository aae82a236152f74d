package builder

// A Record is one of BuildKit's cache. Records have no labels. What a program was given as arguments is in
// the description of the record of its step, and a record of another step is known by those that it was
// made from.
type Record struct {
	ID          string
	Description string
	Parents     []string
}

// OwnRecords returns the IDs of the records that are ours, and of all that were made from them: each after
// those that were made from it.
func OwnRecords(all []Record, ours func(Record) bool) []string {
	own := map[string]bool{}
	var ids []string
	for found := true; found; {
		found = false
		for _, r := range all {
			if own[r.ID] || !ours(r) && !anyOf(own, r.Parents) {
				continue
			}
			own[r.ID], found = true, true
			ids = append(ids, r.ID)
		}
	}
	return leavesFirst(all, ids)
}

func anyOf(set map[string]bool, ids []string) bool {
	for _, id := range ids {
		if set[id] {
			return true
		}
	}
	return false
}

// leavesFirst orders IDs so that each comes after those that were made from it.
func leavesFirst(all []Record, ids []string) []string {
	parents, children := map[string][]string{}, map[string]int{}
	for _, r := range all {
		parents[r.ID] = r.Parents
		for _, p := range r.Parents {
			children[p]++
		}
	}
	var ordered []string
	for len(ids) > 0 {
		var later []string
		for _, id := range ids {
			if children[id] > 0 {
				later = append(later, id)
				continue
			}
			ordered = append(ordered, id)
			for _, p := range parents[id] {
				children[p]--
			}
		}
		if len(later) == len(ids) { // somebody else's records were made from them
			return ordered
		}
		ids = later
	}
	return ordered
}
