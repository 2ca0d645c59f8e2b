# What .ci/run calls besides the README's test command, and longer runs of the same.

.PHONY: test race mutants model crash crash-long bench

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

# Kills, and power cuts of real file systems; the latter need root.
crash:
	go test ./fuzz -run '^(TestKill|TestPowerCut)' -count=1 -v -timeout 20m

crash-long:
	ONCELOG_LONG=1 go test ./fuzz -run '^(TestKill|TestPowerCut|TestLedgerState|TestExecutorState)' -count=1 -v -timeout 80m -rapid.checks=20000

bench:
	go test ./bench -run '^$$' -bench . -benchtime 2s -timeout 30m
