// Package ledger compares the records that came out of a source with those that were produced to its topics: the one view from which no
// cause of double work can hide. Ledger is pure and remembers little; Kafka is where the records produced come from, behind the interface
// Producer. See docs/ledger.md for what the comparison cannot know.
package ledger
