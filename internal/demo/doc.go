// Package demo is the story of the README, with real processes: a backend that is
// down for a while, a mail server, and two watchers of one queue each, one naive
// and one with oncelog, that are killed in the middle of sends.
//
// # Invariants
//
//   - What was sent is counted by the mail server, never by the watchers.
//   - Both watchers get the same leads, the same outage and the same kills.
package demo
