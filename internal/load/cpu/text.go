package cpu

import (
	"slices"
	"strings"
)

// vocabulary returns the words of text, sorted.
func vocabulary() []string {
	return strings.Fields(`a about after all also an and any are as at back be because been before but by can come
could day do even first for from get give go good have he her him his how i if in into is it its just know
like look make man me more most my new no not now of on one only or other our out over people say see she
so some take than that the their them then there these they thing think this time to two up us use very
want was water way we well were what when which who will with work would year you your`)
}

// text returns size bytes of words, some far more frequent than others.
func text(size int) []byte {
	words := vocabulary()
	var s sequence
	var b []byte
	for len(b) < size {
		i := s.next() % uint64(len(words))
		i = min(i, s.next()%uint64(len(words)), s.next()%uint64(len(words)))
		b = append(b, words[i]...)
		b = append(b, " \n"[s.next()%12/11])
	}
	return b[:size]
}

// Strings: in 4 KiB of text, counts each word of the vocabulary and some substrings, and
// makes a copy in which a word is replaced.
func prepareStrings() func() uint64 {
	words, prose := vocabulary(), string(text(4<<10))
	counts, out := make([]uint64, len(words)), make([]byte, 0, 2*len(prose))
	return func() uint64 {
		clear(counts)
		countWords(counts, words, prose)
		total := uint64(0)
		for i, n := range counts {
			total += uint64(i) * n
		}
		for _, part := range [...]string{"as", "en", "her ", "about a", "what\n"} {
			total += uint64(strings.Count(prose, part))
		}
		return total + sum(replace(out, prose, "and", "as well as"))
	}
}

// countWords counts the words of a text that are among words, which are sorted.
func countWords(counts []uint64, words []string, text string) {
	for len(text) > 0 {
		n := strings.IndexAny(text, " \n")
		if n < 0 {
			n = len(text)
		}
		if i, ok := slices.BinarySearch(words, text[:n]); ok {
			counts[i]++
		}
		text = text[min(n+1, len(text)):]
	}
}

// replace appends text to out, with from replaced by to.
func replace(out []byte, text, from, to string) []byte {
	for {
		before, after, found := strings.Cut(text, from)
		out = append(out, before...)
		if !found {
			return out
		}
		out, text = append(out, to...), after
	}
}
