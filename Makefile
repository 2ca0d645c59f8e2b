# What .ci/run calls besides the README's test command, and longer runs of the same.

.PHONY: test race mutants model crash crash-long soak bench peers

test:
	go test ./...

race:
	go test -race ./...

# Every variant of the code with one thing broken must be caught.
mutants:
	ONCELOG_MUTANTS=1 go test ./fuzz -run '^TestMutants$$' -count=1 -timeout 20m

# The protocol, every interleaving. Needs spin and gcc.
model:
	fuzz/model/check

# Crashes of every kind, and what was done in the end: kills at each point, power
# cuts, torn tails, rotations, truncations. Real file systems and FUSE need root.
crash:
	ONCELOG_REPORT=/dev/stdout go test ./fuzz -run '^(TestKill|TestPowerCut|TestEveryOperation|TestLedgerState|TestExecutorState)' -count=1 -v -timeout 20m
	cd fuzz/fusedisk && go test ./... -count=1 -v -timeout 20m

# The same for about an hour.
crash-long:
	ONCELOG_LONG=1 ONCELOG_REPORT=/dev/stdout go test ./fuzz -run '^(TestKill|TestPowerCut|TestEveryOperation|TestLedgerState|TestExecutorState)' -count=1 -v -timeout 120m -rapid.checks=20000
	cd fuzz/fusedisk && ONCELOG_LONG=1 go test ./... -count=1 -v -timeout 60m

# An hour of a service with kills, snapshots and retention; see TestSoak.
soak:
	ONCELOG_SOAK=1h go test ./fuzz -run '^TestSoak$$' -count=1 -v -timeout 2h

bench:
	go test ./bench -run '^$$' -bench . -benchtime 2s -timeout 30m

# Beside other systems, a quarter of an hour: docs/PEERS.md and its plots. Redis and
# PostgreSQL are measured where they are installed.
peers:
	cd bench/peers && go run . -out ../../docs
