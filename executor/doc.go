// Package executor runs effects once. It is the package that users import: they
// register an effect with how to run, check and confirm it, and call Do with an
// item's stable id.
//
//	marker durable ─▶ Run ─▶ outcome durable ─▶ Confirm ─▶ settled
//	              └─ nobody can tell: in doubt ─▶ Check, or a person
//
// # What Run's answer means
//
//   - nil: executed, and the result is recorded.
//   - [NotApplied]: nothing happened. Released, and tried again up to the attempt
//     limit, then a permanent failure.
//   - [Permanent]: a failed outcome, recorded, and answered to duplicates.
//   - Anything else, a timeout, a cancelled context and a panic included: in doubt.
//     An error does not prove that nothing happened.
//
// # Invariants
//
//   - Run is called only for an attempt that the ledger has granted to this call.
//   - A marker is written only when its run can start at once.
//   - An outcome is recorded whatever became of the caller's context.
//   - A check's NotLanded releases an attempt only if the check began after the
//     attempt's owner was gone and the effect's Settle had passed.
//   - A key that an earlier owner left in the journal is not accepted before this
//     executor has looked at it.
//   - Confirm may be called any number of times and never causes a run.
package executor
